#include "api/arguments.h"

#include <cstdint>
#include <utility>

namespace openreg::api {

namespace {

thread_local int current = 0;

constexpr uintptr_t kPage = 4096;  // the smallest there is

template <typename T>
Status find_in(HandleTable<T>& table, const char* kind, const char* argument,
               const void* handle, typename HandleTable<T>::Ref* ref) {
  *ref = table.find(handle);
  if (*ref) [[likely]]
    return {};
  return bad_handle(kind, argument, handle);
}

}  // namespace

Status require(const void* pointer, const char* argument) {
  if (pointer != nullptr) [[likely]]
    return {};
  return failure(orErrorInvalidValue, "%s is null", argument);
}

Status require_device(int index, const char* argument) {
  const int count = Runtime::get().device_count();
  if (index >= 0 && index < count) [[likely]]
    return {};
  return failure(orErrorInvalidDevice, "%s=%d: there are %d devices", argument,
                 index, count);
}

Status require_flags(unsigned int flags, unsigned int known) {
  if ((flags & ~known) == 0) [[likely]]
    return {};
  return failure(orErrorInvalidValue, "flags=0x%x has unknown bits (0x%x)",
                 flags, flags & ~known);
}

Status require_size(size_t size, const char* argument) {
  if (size <= PTRDIFF_MAX) [[likely]]
    return {};
  return failure(orErrorInvalidValue,
                 "%s=%zu is negative as a signed number: %zd", argument, size,
                 static_cast<ptrdiff_t>(size));
}

int current_device() { return current; }
void set_current_device(int index) { current = index; }

Status current_context(Context** context) {
  return device_context(current, context);
}

Status device_context(int index, Context** context) {
  OPENREG_RETURN_IF_ERROR(require_device(index, "device"));
  return Runtime::get().device(index).context(context);
}

Status StreamRef::find(orStream_t handle) {
  if (handle == nullptr) {
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(current_context(&context));
    stream_ = &context->default_stream();
    return {};
  }
  OPENREG_RETURN_IF_ERROR(
      find_in(Runtime::get().streams(), "stream", "stream", handle, &ref_));
  stream_ = ref_.get();
  return {};
}

Status find_event(orEvent_t handle, const char* argument, EventRef* event) {
  return find_in(Runtime::get().events(), "event", argument, handle, event);
}

Status find_module(orModule_t handle, ModuleRef* module) {
  return find_in(Runtime::get().modules(), "module", "module", handle, module);
}

Status find_function(orFunction_t handle, FunctionRef* function) {
  return find_in(Runtime::get().functions(), "function", "function", handle,
                 function);
}

Status bad_handle(const char* kind, const char* argument, const void* handle) {
  if (handle == nullptr) {
    return failure(orErrorInvalidHandle, "%s is null", argument);
  }
  const Handle bits = Handle::from(handle);
  const auto device = static_cast<int>(bits.device);
  Runtime& runtime = Runtime::get();
  const bool is_handle = bits.handle_kind() >= HandleKind::kStream &&
                         bits.handle_kind() <= HandleKind::kFunction &&
                         device < runtime.device_count();
  if (is_handle) {
    const Context* context = runtime.device(device).context_if_open();
    if (context == nullptr ||
        Handle::epoch_bits(context->epoch()) != bits.epoch) {
      return failure(orErrorInvalidHandle,
                     "%s=%p was made before device %d was reset", argument,
                     handle, device);
    }
  }
  return failure(orErrorInvalidHandle,
                 "%s=%p is not a live %s: it was destroyed, or is something "
                 "else",
                 argument, handle, kind);
}

Status require_open(const Context& owner, const void* pointer,
                    const char* argument) {
  if (!owner.is_closed()) [[likely]]
    return {};
  return failure(orErrorInvalidValue,
                 "%s=%p was allocated before device %d was reset", argument,
                 pointer, owner.device());
}

Status locate(const void* pointer, size_t count, const char* argument,
              Location* location) {
  OPENREG_RETURN_IF_ERROR(require(pointer, argument));
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (count > UINTPTR_MAX - address) {
    return failure(orErrorInvalidValue, "%s=%p plus %zu bytes overflows",
                   argument, pointer, count);
  }
  Runtime& runtime = Runtime::get();
  location->memory.pointer = const_cast<void*>(pointer);
  Context* const owner = runtime.find_owner(pointer);
  if (owner != nullptr) {
    location->type = orMemoryTypeDevice;
    location->memory.owner = owner;
    OPENREG_RETURN_IF_ERROR(require_open(*owner, pointer, argument));
    if (owner->memory().heap().holds(address, count)) return {};
    return failure(orErrorInvalidValue,
                   "%s=%p, %zu bytes, is not inside one live allocation: it is "
                   "%s",
                   argument, pointer, count,
                   owner->memory().describe(pointer).c_str());
  }
  const HostKind kind = runtime.host_memory().classify(pointer, count);
  const uintptr_t last = address + (count > 0 ? count - 1 : 0);
  // A page is the host's or a device's.
  const bool ends_on_device =
      last / kPage != address / kPage &&
      runtime.find_owner(reinterpret_cast<const void*>(last)) != nullptr;
  if (kind == HostKind::kPartlyPinned || ends_on_device) {
    return failure(orErrorInvalidValue,
                   "%s=%p, %zu bytes, is not wholly inside one piece of "
                   "ordinary or of pinned memory",
                   argument, pointer, count);
  }
  location->type =
      kind == HostKind::kPinned ? orMemoryTypeHost : orMemoryTypeUnregistered;
  return {};
}

}  // namespace openreg::api
