// A device: its number, and its life of the moment.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/config.h"
#include "core/context.h"
#include "core/status.h"
#include "core/thread_safety.h"

namespace openreg {

// Thread-safe.
class Device {
 public:
  Device(const Config& config, int index, Surroundings& surroundings)
      : config_(config), index_(index), surroundings_(surroundings) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }

  // The life of the moment; begins the first one. Starts no thread and takes no
  // memory.
  //   orErrorNotInitialized  there is no address space for it
  Status context(Context** context) {
    *context = current_.load(std::memory_order_acquire);
    if (*context != nullptr) [[likely]]
      return {};
    return begin(context);
  }

  // The life of the moment, or null if the device was never used.
  Context* context_if_open() const {
    return current_.load(std::memory_order_acquire);
  }

  // The newest life, also if it has ended; null if there was none.
  Context* newest() const { return newest_.load(std::memory_order_acquire); }

  // Whether anybody has asked for a life, also if it is still being made.
  bool was_used() const { return used_.load(std::memory_order_acquire); }

  // Ends the life and begins another. If that is not possible, the device is as
  // if it had never been used.
  Status reset();

 private:
  Status begin(Context** context);
  // Makes the next life, giving up old addresses if there is no room for one as
  // large as the last.
  Status begin_locked(Context** context) REQUIRES(mutex_);

  const Config& config_;
  const int index_;
  Surroundings& surroundings_;
  std::atomic<Context*> current_{nullptr};  // null between two lives
  std::atomic<Context*> newest_{nullptr};
  std::atomic<bool> used_{false};

  Mutex mutex_;
  uint64_t next_epoch_ GUARDED_BY(mutex_) = 1;
};

}  // namespace openreg
