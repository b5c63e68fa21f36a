// An event: the latest point of a stream that it was recorded at.
#pragma once

#include <memory>
#include <optional>

#include "core/command.h"
#include "core/status.h"
#include "core/stream.h"
#include "core/thread_safety.h"

namespace openreg {

// Thread-safe. A record is complete in itself: whoever has taken one is not
// affected by a later one, nor by the event's end.
class Event {
 public:
  Event(Context& context, unsigned int flags)
      : context_(context), flags_(flags) {}

  Context& context() const { return context_; }
  bool has_timing() const;

  // Records the event behind everything submitted to `stream` so far.
  Status record(Stream& stream);

  // The latest record, if there is one.
  std::optional<Fence> fence() const;

  // Tells an earlier failure of the device as well.
  Status query() const;
  Status synchronize() const;

  // Stores the time of the latest record.
  //   orErrorInvalidHandle  no timing, or never recorded
  //   orErrorNotReady       not reached
  Status time(int64_t* nanoseconds) const;

 private:
  struct Record {
    Fence fence;
    std::shared_ptr<Timestamp> stamp;  // null without timing
  };
  std::optional<Record> latest() const;

  Context& context_;
  const unsigned int flags_;

  mutable Mutex mutex_;
  std::optional<Record> latest_ GUARDED_BY(mutex_);
};

}  // namespace openreg
