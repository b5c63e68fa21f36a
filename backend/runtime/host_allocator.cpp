#include "backend/runtime/host_allocator.h"

#include "backend/runtime/check.h"
#include "backend/runtime/event.h"
#include "backend/runtime/functions.h"
#include "openreg/memory.h"

namespace torch_openreg {

namespace {

// What PyTorch's template asks of a device. Thread-safe.
struct PinnedMemory final
    : at::CachingHostAllocatorImpl<OpenRegStream, OpenRegEvent> {
 private:
  void allocate_host_memory(size_t size, void** ptr) override {
    device_count_ensure_non_zero();
    OPENREG_CHECK(orMallocHost(ptr, size));
  }

  void free_block(at::HostBlock<OpenRegStream>* block) override {
    OPENREG_WARN(orFreeHost(block->ptr_));
  }

  void record_stream(std::optional<std::vector<OpenRegEvent>>& events,
                     OpenRegStream stream) override {
    OpenRegEvent event;
    event.record(stream);
    events->push_back(std::move(event));
  }

  bool query_event(OpenRegEvent& event) override { return event.query(); }

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

const at::HostAllocatorRegistry<c10::DeviceType::PrivateUse1> kRegistered(
    &instance());

}  // namespace

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
