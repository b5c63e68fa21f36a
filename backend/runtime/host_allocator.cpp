#include "backend/runtime/host_allocator.h"
#include "backend/runtime/registration.h"

#include "backend/runtime/check.h"
#include "backend/runtime/event.h"
#include "backend/runtime/functions.h"
#include "openreg/memory.h"

namespace torch_openreg {

namespace {

// A child that was forked after the driver's first use has none of the parent's
// memory, and nobody opens the locks that a thread held at the fork.
bool is_usable() {
  int device = 0;
  if (orGetDevice(&device) == orSuccess) return true;
  orGetLastError();
  return false;
}

// Answers what PyTorch's template asks of a device. Thread-safe.
struct PinnedMemory final
    : at::CachingHostAllocatorImpl<OpenRegStream, OpenRegEvent> {
  // Throws c10::AcceleratorError in such a child, also for what is cached.
  std::pair<void*, void*> allocate(size_t size) override {
    device_count_ensure_non_zero();
    current_device();
    return CachingHostAllocatorImpl::allocate(size);
  }

  void free(void* context) override {
    if (is_usable()) CachingHostAllocatorImpl::free(context);
  }

  void empty_cache() override {
    if (is_usable()) CachingHostAllocatorImpl::empty_cache();
  }

 private:
  void allocate_host_memory(size_t size, void** ptr) override {
    OPENREG_CHECK(orMallocHost(ptr, size));
  }

  void free_block(at::HostBlock<OpenRegStream>* block) override {
    OPENREG_WARN(orFreeHost(block->ptr_));
  }

  // Deleters come here, so it cannot throw. A block whose stream cannot say
  // when it is done with it is never given out again.
  void record_stream(std::optional<std::vector<OpenRegEvent>>& events,
                     OpenRegStream stream) override {
    try {
      OpenRegEvent event;
      event.record(stream);
      events->push_back(std::move(event));
    } catch (const c10::AcceleratorError& error) {
      if (error.get_error_code() == orErrorDeviceLost) {
        events->emplace_back();  // done: nothing runs there any more
        return;
      }
      warn("OpenReg, while pinned memory was freed: ",
           error.what_without_backtrace());
    } catch (const c10::Error& error) {
      warn("OpenReg, while pinned memory was freed: ",
           error.what_without_backtrace());
    }
  }

  // The events of a device that was reset or is lost are gone, and so is their
  // work.
  bool query_event(OpenRegEvent& event) override {
    try {
      return event.query();
    } catch (const c10::AcceleratorError& error) {
      const int code = error.get_error_code();
      if (code == orErrorInvalidHandle || code == orErrorDeviceLost) {
        return true;
      }
      throw;
    }
  }

  OpenRegStream get_current_stream() const override {
    return getCurrentOpenRegStream();
  }

  bool stream_is_capturing(OpenRegStream) const override { return false; }
};

void delete_pinned(void* context);

struct OpenRegHostAllocator final
    : at::CachingHostAllocatorInterface<PinnedMemory, delete_pinned> {
  c10::DeleterFnPtr raw_deleter() const override { return delete_pinned; }
};

// Leaked: pinned tensors may outlive every static object.
OpenRegHostAllocator& instance() {
  static auto& allocator = *new OpenRegHostAllocator;
  return allocator;
}

void delete_pinned(void* context) { instance().free(context); }

}  // namespace

void register_host_allocator() {
  at::setHostAllocator(c10::DeviceType::PrivateUse1, &instance());
}

at::HostAllocator* getOpenRegHostAllocator() { return &instance(); }

bool is_pinned_ptr(const void* ptr) {
  orPointerAttributes attributes{};
  if (orPointerGetAttributes(&attributes, ptr) != orSuccess) {
    orGetLastError();
    return false;
  }
  return attributes.type == orMemoryTypeHost;
}

}  // namespace torch_openreg
