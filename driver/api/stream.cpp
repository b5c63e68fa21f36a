#include "openreg/stream.h"

#include "api/arguments.h"
#include "api/entry.h"

using namespace openreg;
using namespace openreg::api;

namespace {

Status create_stream(orStream_t* stream, unsigned int flags, int priority) {
  OPENREG_RETURN_IF_ERROR(require(stream, "stream"));
  OPENREG_RETURN_IF_ERROR(require_flags(flags, orStreamNonBlocking));
  Context* context = nullptr;
  OPENREG_RETURN_IF_ERROR(current_context(&context));
  const auto created = context->create_stream(flags, priority);
  if (created == nullptr) {
    return failure(orErrorOutOfMemory,
                   "there are too many streams: the devices can have %zu at a "
                   "time, all together",
                   context->hardware().limits().queues);
  }
  void* handle = nullptr;
  Status status =
      add_object(Runtime::get().streams(), created, *context, &handle);
  if (!status.ok()) {
    context->retire(created->queue());
    return status;
  }
  *stream = static_cast<orStream_t>(handle);
  return {};
}

}  // namespace

orError_t orStreamCreate(orStream_t* stream) {
  return call(__func__, [&] {
    return create_stream(stream, orStreamDefault, kLeastPriority);
  });
}

orError_t orStreamCreateWithFlags(orStream_t* stream, unsigned int flags) {
  return call(__func__,
              [&] { return create_stream(stream, flags, kLeastPriority); });
}

orError_t orStreamCreateWithPriority(orStream_t* stream, unsigned int flags,
                                     int priority) {
  return call(__func__, [&] { return create_stream(stream, flags, priority); });
}

orError_t orStreamDestroy(orStream_t stream) {
  return call(__func__, [&]() -> Status {
    if (stream == nullptr) {
      return failure(orErrorInvalidValue,
                     "stream is null: the default stream can't be destroyed");
    }
    const auto destroyed = Runtime::get().streams().remove(stream);
    if (destroyed == nullptr) return bad_handle("stream", "stream", stream);
    destroyed->context().retire(destroyed->queue());
    return {};
  });
}

orError_t orStreamQuery(orStream_t stream) {
  return call(__func__, [&]() -> Status {
    StreamRef found;
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    return found->query();
  });
}

orError_t orStreamSynchronize(orStream_t stream) {
  return call(__func__, [&]() -> Status {
    StreamRef found;
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    return found->synchronize();
  });
}

orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event,
                            unsigned int flags) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require_flags(flags, 0));
    StreamRef found;
    EventRef awaited;
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    OPENREG_RETURN_IF_ERROR(find_event(event, "event", &awaited));
    OPENREG_RETURN_IF_ERROR(found->context().failures().take());
    std::optional<Fence> fence = awaited->fence();
    // What is done, or comes earlier on the same stream, is no obstacle.
    if (!fence || is_done(*fence) || fence->queue.get() == &found->queue()) {
      return {};
    }
    return found->submit_async(WaitCommand{*std::move(fence)});
  });
}

orError_t orLaunchHostFunc(orStream_t stream, orHostFn_t fn, void* userData) {
  return call(__func__, [&]() -> Status {
    if (fn == nullptr) return failure(orErrorInvalidValue, "fn is null");
    StreamRef found;
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    return found->submit_async(HostCommand{fn, userData});
  });
}

orError_t orStreamGetDevice(orStream_t stream, int* device) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(device, "device"));
    StreamRef found;
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    *device = found->context().device();
    return {};
  });
}

orError_t orStreamGetPriority(orStream_t stream, int* priority) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(priority, "priority"));
    StreamRef found;
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    *priority = found->priority();
    return {};
  });
}

orError_t orStreamGetFlags(orStream_t stream, unsigned int* flags) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(flags, "flags"));
    StreamRef found;
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    *flags = found->flags();
    return {};
  });
}
