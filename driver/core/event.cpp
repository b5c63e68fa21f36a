#include "core/event.h"

#include <utility>

#include "core/context.h"
#include "openreg/event.h"

namespace openreg {

bool Event::has_timing() const { return (flags_ & orEventDisableTiming) == 0; }

Status Event::record(Stream& stream) {
  Record record;
  if (has_timing()) {
    record.stamp = context_.hardware().create_stamp();
    if (record.stamp == nullptr) {
      return failure(orErrorOutOfMemory,
                     "there are too many recorded events with timing: a device "
                     "can have %zu at a time",
                     context_.hardware().limits().stamps);
    }
    OPENREG_RETURN_IF_ERROR(stream.submit_async(
        StampCommand{record.stamp}, {}, Urgency::kCheap, &record.fence));
  } else {
    OPENREG_RETURN_IF_ERROR(context_.failures().take());
    OPENREG_RETURN_IF_ERROR(context_.order(stream));
    record.fence = stream.fence();
  }
  const MutexLock lock(mutex_);
  latest_ = std::move(record);
  return {};
}

std::optional<Event::Record> Event::latest() const {
  const MutexLock lock(mutex_);
  return latest_;
}

std::optional<Fence> Event::fence() const {
  const MutexLock lock(mutex_);
  return latest_ ? std::optional(latest_->fence) : std::nullopt;
}

Status Event::query() const {
  OPENREG_RETURN_IF_ERROR(context_.failures().take());
  const std::optional<Fence> point = fence();
  if (!point || is_done(*point)) return context_.failures().take();
  return failure(orErrorNotReady, "the event's record has not been reached");
}

Status Event::synchronize() const {
  const auto style = (flags_ & orEventBlockingSync) != 0 ? WaitStyle::kSleep
                                                         : WaitStyle::kSpin;
  if (const std::optional<Fence> point = fence()) {
    point->queue->wait(point->sequence, style);
  }
  return context_.failures().take();
}

Status Event::time(int64_t* nanoseconds) const {
  if (!has_timing()) {
    return failure(orErrorInvalidHandle, "was created without timing");
  }
  const std::optional<Record> record = latest();
  if (!record) return failure(orErrorInvalidHandle, "was never recorded");
  if (!is_done(record->fence)) {
    return failure(orErrorNotReady, "has not been reached");
  }
  *nanoseconds = record->stamp->nanoseconds.load(std::memory_order_acquire);
  return {};
}

}  // namespace openreg
