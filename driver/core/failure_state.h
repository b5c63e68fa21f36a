// The failure of a device's work, between the moment it happens and the moment
// it is told.
#pragma once

#include <atomic>
#include <mutex>

#include "core/config.h"
#include "core/status.h"

namespace openreg {

// Thread-safe. Asking costs one load while there is no failure.
class FailureState {
 public:
  explicit FailureState(ErrorMode mode) : mode_(mode) {}

  // Whether a failure with this code stays until the device is reset.
  bool is_sticky(orError_t code) const;

  // Keeps a failure. The first counts; later ones are only counted, unless they
  // are sticky and the first is not.
  void report(const Status& status);

  // Returns the failure that has to be told now, and forgets it if it is not a
  // sticky one.
  Status take();

  // Returns the sticky failure, success if there is none.
  Status sticky() const;
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }

 private:
  const ErrorMode mode_;
  std::atomic<bool> pending_{false};
  std::atomic<bool> broken_{false};

  mutable std::mutex mutex_;
  Status first_;    // guarded by mutex_
  int others_ = 0;  // failures after the first; guarded by mutex_
};

}  // namespace openreg
