// The failure of a device's work, between the moment it happens and the moment
// it is reported.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "core/config.h"
#include "core/status.h"
#include "core/thread_safety.h"

namespace openreg {

// Failures that another process has noticed. Thread-safe.
class FailureSource {
 public:
  virtual ~FailureSource() = default;
  // Whether there are any that were not taken; costs one load.
  virtual bool has_news() const = 0;
  // Hands the next of them, if there is one, to `report`; until that returns it
  // counts as news.
  virtual void next(const std::function<void(const Status&)>& report) = 0;
};

// Thread-safe. Asking costs one load while there is no failure, and one more
// for a device in another process.
class FailureState {
 public:
  explicit FailureState(ErrorMode mode) : mode_(mode) {}

  // Whether every failure stays until the device is reset.
  bool keeps_all() const { return mode_ == ErrorMode::kGpu; }
  // Whether a failure with this code does.
  bool is_sticky(orError_t code) const;

  // Keeps a failure. The first counts; later ones are only counted, unless they
  // are sticky and the first is not.
  void report(const Status& status);

  // From now on failures come from `source` as well; null ends that. Not while
  // others use this object, except take() with a source that stays valid.
  void set_source(FailureSource* source) {
    source_.store(source, std::memory_order_release);
  }
  // From now on `sink` gets every failure that is reported.
  void set_sink(std::function<void(const Status&)> sink) {
    sink_ = std::move(sink);
  }

  // Returns the failure that has to be reported now, and forgets it if it is
  // not a sticky one.
  Status take() {
    const FailureSource* source = source_.load(std::memory_order_acquire);
    if (source != nullptr && source->has_news()) [[unlikely]]
      collect();
    if (!pending_.load(std::memory_order_acquire)) [[likely]]
      return {};
    return take_pending();
  }

  // Returns the sticky failure, success if there is none.
  Status sticky() const;
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }

 private:
  // Moves what the source has to this object.
  void collect();
  Status take_pending();

  const ErrorMode mode_;
  std::atomic<FailureSource*> source_{nullptr};
  std::function<void(const Status&)> sink_;  // set before the first failure
  std::atomic<bool> pending_{false};
  std::atomic<bool> broken_{false};

  Mutex collect_mutex_;  // one at a time asks the source

  mutable Mutex mutex_;
  Status first_ GUARDED_BY(mutex_);
  int others_ GUARDED_BY(mutex_) = 0;  // failures after the first
};

}  // namespace openreg
