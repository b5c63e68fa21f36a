#include "execution/kernel_call.h"

#include <cstring>
#include <exception>
#include <utility>
#include <variant>

#include "core/activity.h"

namespace openreg {

// The functions that a kernel reaches through its context.
struct KernelCall::Entry {
  static KernelCall& self(orKernelContext* context) {
    return *static_cast<KernelCall*>(context);
  }
  static void* translate(orKernelContext* context, const void* pointer,
                         size_t bytes) {
    return self(context).translate_bytes(pointer, bytes);
  }
  static orError_t fail(orKernelContext* context, orError_t code,
                        const char* message) {
    return self(context).keep_failure(code, message != nullptr ? message : "");
  }
  static orError_t reply(orKernelContext* context, const void* data,
                         size_t bytes) {
    return self(context).keep_reply(data, bytes);
  }
  static int is_cancelled(orKernelContext* context) {
    return self(context).is_cancelled() ? 1 : 0;
  }
  static void begin_wait(orKernelContext* context) {
    self(context).leave_place();
  }
  static void end_wait(orKernelContext* context) { self(context).take_place(); }
  static void note(orKernelContext* /*context*/, const char* what,
                   size_t size) {
    if (current_activity != nullptr) current_activity->set({what, size});
  }
};

constexpr orKernelInterface KernelCall::kInterface = {
    .structSize = sizeof(orKernelInterface),
    .translate = Entry::translate,
    .fail = Entry::fail,
    .reply = Entry::reply,
    .isCancelled = Entry::is_cancelled,
    .beginWait = Entry::begin_wait,
    .endWait = Entry::end_wait,
    .note = Entry::note,
};

KernelCall::KernelCall(Context& device_context, ExecutionPlaces& places,
                       int priority, const std::atomic<bool>& cancelled,
                       Payload payload, Completion* completion)
    : orKernelContext{&kInterface, payload.data(), payload.size(),
                      device_context.device()},
      context_(device_context),
      places_(places),
      priority_(priority),
      cancelled_(cancelled),
      completion_(completion) {}

void KernelCall::take_place() {
  if (!has_place_) places_.acquire(priority_);
  has_place_ = true;
}

void KernelCall::leave_place() {
  if (has_place_) places_.release();
  has_place_ = false;
}

orError_t KernelCall::call_code(const Kernel& kernel) {
  const auto* const code = std::get_if<orKernelFn>(&kernel.code());
  if (code == nullptr) {
    return keep_failure(orErrorInternal, "its code is in another process");
  }
  if (current_activity != nullptr) current_activity->set(kernel.name());
  try {
    return (*code)(this);
  } catch (const std::exception& error) {
    return keep_failure(orErrorLaunchFailure,
                        std::string("it threw an exception: ") + error.what());
  } catch (...) {
    return keep_failure(orErrorLaunchFailure, "it threw an exception");
  }
}

Status KernelCall::result(const Kernel& kernel, orError_t returned) const {
  if (returned == orSuccess && failure_.ok()) return {};
  // A failure that the kernel was told of counts, even if it looked away.
  orError_t code = failure_.ok() ? returned : failure_.code();
  if (!is_failure(code) || code == orErrorNotReady) {
    code = orErrorLaunchFailure;
  }
  const std::string& reason = failure_.message();
  return failure(code, "kernel '%s' failed on device %d: %s",
                 kernel.name().c_str(), device,
                 reason.empty() ? orGetErrorString(code) : reason.c_str());
}

void* KernelCall::translate_bytes(const void* pointer, size_t bytes) {
  if (bytes == 0) return this;  // not null, and not to be used
  if (void* const found = find_bytes(pointer, bytes)) return found;
  Context* const owner = context_.surroundings().find_owner(pointer);
  const std::string what = owner != nullptr ? owner->memory().describe(pointer)
                                            : std::string("not device memory");
  keep_failure(orErrorIllegalAddress,
               format_string("address %p, %zu bytes, is not memory that device "
                             "%d can use: %s",
                             pointer, bytes, device, what.c_str()));
  return nullptr;
}

void* KernelCall::find_bytes(const void* pointer, size_t bytes) {
  const DeviceMemory& memory = context_.memory();
  if (memory.covers(pointer)) return memory.find_view(pointer, bytes);
  Surroundings& surroundings = context_.surroundings();
  if (void* const pinned = surroundings.find_pinned(pointer, bytes)) {
    return pinned;
  }
  Context* const owner = surroundings.find_owner(pointer);
  return owner != nullptr ? find_peer_bytes(*owner, pointer, bytes) : nullptr;
}

void* KernelCall::find_peer_bytes(Context& peer, const void* pointer,
                                  size_t bytes) {
  if (peer.device() == device || !context_.may_access(peer.device()) ||
      !visit(peer)) {
    return nullptr;
  }
  return peer.memory().find_view(pointer, bytes);
}

bool KernelCall::visit(const Context& peer) {
  for (const Visit& visit : visits_) {
    if (visit.peer == &peer) return true;
  }
  auto lock = peer.memory().visit();
  if (!lock.owns_lock()) return false;
  visits_.push_back({&peer, std::move(lock)});
  return true;
}

// Work of a device that is broken goes no further, as on a GPU.
bool KernelCall::is_cancelled() const {
  return cancelled_.load(std::memory_order_acquire) ||
         context_.failures().is_broken();
}

orError_t KernelCall::keep_failure(orError_t code, std::string message) {
  if (code == orSuccess) return code;
  if (failure_.ok()) failure_ = Status(code, std::move(message));
  return code;
}

orError_t KernelCall::keep_reply(const void* data, size_t bytes) {
  if (completion_ == nullptr || !completion_->wants_reply) return orSuccess;
  if (bytes > completion_->reply.size()) {
    return keep_failure(
        orErrorInvalidValue,
        format_string("the reply has %zu bytes and the caller has room for %zu",
                      bytes, completion_->reply.size()));
  }
  if (bytes > 0) std::memcpy(completion_->reply.data(), data, bytes);
  completion_->reply_size = bytes;
  return orSuccess;
}

}  // namespace openreg
