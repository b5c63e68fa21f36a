#include "execution/execution_places.h"

#include <algorithm>

namespace openreg {

bool ExecutionPlaces::try_take() {
  int free = free_.load(std::memory_order_seq_cst);
  while (free > 0) {
    if (free_.compare_exchange_weak(free, free - 1,
                                    std::memory_order_seq_cst)) {
      return true;
    }
  }
  return false;
}

bool ExecutionPlaces::try_acquire() {
  return waiting_.load(std::memory_order_seq_cst) == 0 && try_take();
}

bool ExecutionPlaces::must_yield(int level) const {
  return std::any_of(waiting_at_.begin(), waiting_at_.begin() + level,
                     [](int count) { return count > 0; });
}

void ExecutionPlaces::acquire(int priority) {
  if (try_acquire()) return;
  const int level = priority - kGreatestPriority;
  const MutexLock lock(mutex_);
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  ++waiting_at_[static_cast<size_t>(level)];
  changed_.wait(mutex_, [&]() REQUIRES(mutex_) {
    return !must_yield(level) && try_take();
  });
  --waiting_at_[static_cast<size_t>(level)];
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
  // Another place may be free for those who yielded to this one.
  changed_.notify_all();
}

// See Note [Sleeping without missing the wake-up]: the place is returned first
// and then those who wait are looked for.
void ExecutionPlaces::release() {
  free_.fetch_add(1, std::memory_order_seq_cst);
  if (waiting_.load(std::memory_order_seq_cst) == 0) return;
  const MutexLock lock(mutex_);
  changed_.notify_all();
}

}  // namespace openreg
