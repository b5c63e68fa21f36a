// How much of what was sent to a queue is not done yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/thread_safety.h"
#include "core/timeline.h"

namespace openreg {

// Makes producers wait that are too far ahead of the device. Does not know
// every command, but one for every 64 KiB or so. Thread-safe.
class FlowControl {
 public:
  // `timeline` is the queue's, and outlives this object.
  explicit FlowControl(const Timeline& timeline) : timeline_(timeline) {}

  // Counts `bytes` that were sent with the command of that number.
  void add(uint64_t sequence, size_t bytes);

  // The command that must be done before more is sent; none if there is room.
  std::optional<uint64_t> obstacle();

 private:
  // A command, and how much had been sent with it.
  struct Mark {
    uint64_t sequence;
    size_t total;
  };

  const Timeline& timeline_;

  Mutex mutex_;
  size_t sent_ GUARDED_BY(mutex_) = 0;         // bytes
  size_t done_ GUARDED_BY(mutex_) = 0;         // bytes
  std::deque<Mark> marks_ GUARDED_BY(mutex_);  // not done
};

}  // namespace openreg
