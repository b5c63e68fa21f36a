// From the arguments of the API to the driver's objects, with a message that
// names the argument where that is not possible.
#pragma once

#include <cstddef>

#include "core/runtime.h"
#include "core/status.h"
#include "openreg/event.h"
#include "openreg/memory.h"
#include "openreg/module.h"

namespace openreg::api {

//   orErrorInvalidValue  `pointer` is null
Status require(const void* pointer, const char* argument);

//   orErrorInvalidDevice  `index` is not in [0, count)
Status require_device(int index, const char* argument);

//   orErrorInvalidValue  `flags` has a bit that is not in `known`
Status require_flags(unsigned int flags, unsigned int known);

//   orErrorInvalidValue  `size` is negative as a signed number
Status require_size(size_t size, const char* argument);

// The calling thread's current device.
int current_device();
void set_current_device(int index);

// The life of the moment of the current device, or of device `index`.
//   orErrorInvalidDevice  there are no devices
Status current_context(Context** context);
Status device_context(int index, Context** context);

// A stream that is kept alive while it is used. Null handles mean the default
// stream of the current device.
class StreamRef {
 public:
  //   orErrorInvalidHandle  not a live stream
  Status find(orStream_t handle);
  Stream* operator->() const { return stream_; }
  Stream& operator*() const { return *stream_; }

 private:
  HandleTable<Stream>::Ref ref_;
  Stream* stream_ = nullptr;
};

using EventRef = HandleTable<Event>::Ref;
using ModuleRef = HandleTable<Module>::Ref;
using FunctionRef = HandleTable<Function>::Ref;

//   orErrorInvalidHandle  not a live object of that kind
Status find_event(orEvent_t handle, const char* argument, EventRef* event);
Status find_module(orModule_t handle, ModuleRef* module);
Status find_function(orFunction_t handle, FunctionRef* function);

// Puts a new object of `context` into its table and stores the handle. If the
// device is reset meanwhile, the object is refused.
//   orErrorOutOfMemory    the table is full
//   orErrorInvalidDevice  another thread resets the device
template <typename T>
Status add_object(HandleTable<T>& table, std::shared_ptr<T> object,
                  const Context& context, void** handle) {
  *handle = table.insert(std::move(object), context.device(), context.epoch());
  if (*handle == nullptr) {
    return failure(orErrorOutOfMemory,
                   "there are too many objects of this kind: a program can "
                   "have %u at a time",
                   table.kMaxObjects);
  }
  // Closed before the reset looked for objects, or found by it.
  if (!context.is_closed()) return {};
  table.remove(*handle);
  return being_reset(context.device());
}

// Says why a handle is refused.
Status bad_handle(const char* kind, const char* argument, const void* handle);

//   orErrorInvalidValue  `pointer` is from before the reset of its device
Status require_open(const Context& owner, const void* pointer,
                    const char* argument);

// The memory that a range of addresses lies in.
struct Location {
  orMemoryType type = orMemoryTypeUnregistered;
  MemoryRef memory;

  bool is_device() const { return type == orMemoryTypeDevice; }
  bool is_pageable() const { return type == orMemoryTypeUnregistered; }
};

// Finds out what [pointer, pointer + count) is.
//   orErrorInvalidValue  null, overflowing, leaving its allocation, freed, or
//                        partly pinned
Status locate(const void* pointer, size_t count, const char* argument,
              Location* location);

}  // namespace openreg::api
