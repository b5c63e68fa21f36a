#include "openreg/event.h"

#include "api/arguments.h"
#include "api/entry.h"

using namespace openreg;
using namespace openreg::api;

namespace {

Status create_event(orEvent_t* event, unsigned int flags) {
  OPENREG_RETURN_IF_ERROR(require(event, "event"));
  OPENREG_RETURN_IF_ERROR(require_flags(
      flags, orEventBlockingSync | orEventDisableTiming | orEventInterprocess));
  if ((flags & orEventInterprocess) != 0) {
    return failure(orErrorNotSupported,
                   "flags=0x%x: events can't be shared between processes",
                   flags);
  }
  Context* context = nullptr;
  OPENREG_RETURN_IF_ERROR(current_context(&context));
  void* handle = nullptr;
  OPENREG_RETURN_IF_ERROR(add_object(Runtime::get().events(),
                                     std::make_shared<Event>(*context, flags),
                                     *context, &handle));
  *event = static_cast<orEvent_t>(handle);
  return {};
}

// Names the event in what went wrong with its time.
Status time_of(const Event& event, const char* argument, int64_t* nanoseconds) {
  const Status status = event.time(nanoseconds);
  if (status.ok()) return {};
  return failure(status.code(), "%s %s", argument, status.message().c_str());
}

}  // namespace

orError_t orEventCreate(orEvent_t* event) {
  return call(__func__, [&] { return create_event(event, orEventDefault); });
}

orError_t orEventCreateWithFlags(orEvent_t* event, unsigned int flags) {
  return call(__func__, [&] { return create_event(event, flags); });
}

orError_t orEventRecord(orEvent_t event, orStream_t stream) {
  return call(__func__, [&]() -> Status {
    EventRef recorded;
    StreamRef found;
    OPENREG_RETURN_IF_ERROR(find_event(event, "event", &recorded));
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    if (&recorded->context() != &found->context()) {
      return failure(orErrorInvalidDevice,
                     "event=%p belongs to device %d and stream=%p to device %d",
                     static_cast<void*>(event), recorded->context().device(),
                     static_cast<void*>(stream), found->context().device());
    }
    return recorded->record(*found);
  });
}

orError_t orEventQuery(orEvent_t event) {
  return call(__func__, [&]() -> Status {
    EventRef found;
    OPENREG_RETURN_IF_ERROR(find_event(event, "event", &found));
    return found->query();
  });
}

orError_t orEventSynchronize(orEvent_t event) {
  return call(__func__, [&]() -> Status {
    EventRef found;
    OPENREG_RETURN_IF_ERROR(find_event(event, "event", &found));
    return found->synchronize();
  });
}

orError_t orEventElapsedTime(float* milliseconds, orEvent_t start,
                             orEvent_t end) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(milliseconds, "milliseconds"));
    EventRef first;
    EventRef second;
    OPENREG_RETURN_IF_ERROR(find_event(start, "start", &first));
    OPENREG_RETURN_IF_ERROR(find_event(end, "end", &second));
    if (&first->context() != &second->context()) {
      return failure(orErrorInvalidDevice,
                     "start belongs to device %d and end to device %d",
                     first->context().device(), second->context().device());
    }
    int64_t from = 0;
    int64_t to = 0;
    OPENREG_RETURN_IF_ERROR(time_of(*first, "start", &from));
    OPENREG_RETURN_IF_ERROR(time_of(*second, "end", &to));
    OPENREG_RETURN_IF_ERROR(first->context().failures().take());
    *milliseconds = static_cast<float>(to - from) * 1e-6F;
    return {};
  });
}

orError_t orEventDestroy(orEvent_t event) {
  return call(__func__, [&]() -> Status {
    if (Runtime::get().events().remove(event) != nullptr) return {};
    return bad_handle("event", "event", event);
  });
}
