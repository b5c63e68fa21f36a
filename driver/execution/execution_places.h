// The places on a device where kernels run: as many as it has processors.
#pragma once

#include <array>
#include <atomic>

#include "core/context.h"
#include "core/thread_safety.h"

namespace openreg {

// Gives places to kernels; when all are taken, the next one that comes free
// goes to the highest priority that waits. Thread-safe. Costs two atomic
// operations while places are free.
class ExecutionPlaces {
 public:
  explicit ExecutionPlaces(int count) : count_(count), free_(count) {}

  int count() const { return count_; }

  // Takes a place if one is free and nobody waits.
  bool try_acquire();

  // Takes a place, waiting for it behind smaller numbers of `priority`.
  void acquire(int priority);

  void release();

 private:
  static constexpr int kLevels = kLeastPriority - kGreatestPriority + 1;

  bool try_take();
  // Whether a higher priority waits.
  bool must_yield(int level) const REQUIRES(mutex_);

  const int count_;
  std::atomic<int> free_;
  std::atomic<int> waiting_{0};

  Mutex mutex_;
  ConditionVariable changed_;
  std::array<int, kLevels> waiting_at_ GUARDED_BY(mutex_){};
};

}  // namespace openreg
