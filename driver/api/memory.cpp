#include "openreg/memory.h"

#include "api/arguments.h"
#include "api/entry.h"

using namespace openreg;
using namespace openreg::api;

orError_t orMalloc(void** ptr, size_t size) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(ptr, "ptr"));
    OPENREG_RETURN_IF_ERROR(require_size(size, "size"));
    *ptr = nullptr;
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(current_context(&context));
    if (size == 0) return {};
    return context->allocate(size, ptr);
  });
}

orError_t orFree(void* ptr) {
  return call(__func__, [&]() -> Status {
    if (ptr == nullptr) return {};
    Runtime& runtime = Runtime::get();
    Context* const owner = runtime.find_owner(ptr);
    if (owner == nullptr) {
      return failure(orErrorInvalidValue, "ptr=%p is not device memory", ptr);
    }
    OPENREG_RETURN_IF_ERROR(require_open(*owner, ptr, "ptr"));
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    if (!owner->memory().heap().begin_free(address)) {
      return failure(orErrorInvalidValue,
                     "ptr=%p is not the start of a live allocation: it is %s",
                     ptr, owner->memory().describe(ptr).c_str());
    }
    runtime.synchronize_users(*owner);
    owner->end_free(address);
    return {};
  });
}

orError_t orMallocHost(void** ptr, size_t size) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(ptr, "ptr"));
    OPENREG_RETURN_IF_ERROR(require_size(size, "size"));
    *ptr = nullptr;
    if (size == 0) return {};
    return Runtime::get().host_memory().allocate(size, ptr);
  });
}

orError_t orFreeHost(void* ptr) {
  return call(__func__, [&]() -> Status {
    if (ptr == nullptr) return {};
    return Runtime::get().free_host(ptr);
  });
}

orError_t orHostRegister(void* ptr, size_t size, unsigned int flags) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require_flags(flags, orHostRegisterDefault));
    if (size == 0) return failure(orErrorInvalidValue, "size is 0");
    OPENREG_RETURN_IF_ERROR(require_size(size, "size"));
    Location location;
    OPENREG_RETURN_IF_ERROR(locate(ptr, size, "ptr", &location));
    if (location.is_device()) {
      return failure(orErrorInvalidValue, "ptr=%p is device memory", ptr);
    }
    return Runtime::get().host_memory().add_range(ptr, size);
  });
}

orError_t orHostUnregister(void* ptr) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(ptr, "ptr"));
    Runtime& runtime = Runtime::get();
    OPENREG_RETURN_IF_ERROR(runtime.host_memory().begin_remove_range(ptr));
    runtime.synchronize_all();
    runtime.host_memory().end_remove_range(ptr);
    return {};
  });
}

orError_t orMemGetInfo(size_t* free, size_t* total) {
  return call(__func__, [&]() -> Status {
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(current_context(&context));
    if (free != nullptr) *free = context->memory().heap().available();
    if (total != nullptr) *total = context->memory().limit();
    return {};
  });
}

orError_t orPointerGetAttributes(orPointerAttributes* attributes,
                                 const void* ptr) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(attributes, "attributes"));
    Runtime& runtime = Runtime::get();
    void* const pointer = const_cast<void*>(ptr);
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    orPointerAttributes result{};
    result.device = -1;
    std::optional<Block> block;
    if (runtime.find_owner(ptr) != nullptr) {
      Location location;
      OPENREG_RETURN_IF_ERROR(locate(ptr, 1, "ptr", &location));
      Context& owner = *location.memory.owner;
      block = owner.memory().heap().find(address);
      result.type = orMemoryTypeDevice;
      result.device = owner.device();
      result.devicePointer = pointer;
    } else {
      block = runtime.host_memory().find(ptr);
      if (block && !block->contains(address, 1)) block.reset();
      result.type = block ? orMemoryTypeHost : orMemoryTypeUnregistered;
      result.devicePointer = block ? pointer : nullptr;
      result.hostPointer = pointer;
    }
    if (block) {
      result.base = reinterpret_cast<void*>(block->base);
      result.size = block->size;
    }
    *attributes = result;
    return {};
  });
}
