#include "core/timeline.h"

#include "core/futex.h"

namespace openreg {

namespace {

// About 20 microseconds: what a sleeping thread would need to come back.
constexpr int kSpins = 400;
constexpr int kBriefSpins = 200;

int spins(WaitStyle style) {
  if (style == WaitStyle::kSleep) return 0;
  return style == WaitStyle::kSpin ? kSpins : kBriefSpins;
}

}  // namespace

// Note [Sleeping without missing the wake-up]
// A waiter announces itself in `waiters_` and then looks at the value; the
// advancing thread stores the value and then looks at `waiters_`. Both are
// sequentially consistent, so at least one of them sees the other. The waiter
// reads `turn_` before it looks, so a wake-up that comes between the look and
// the sleep changes the word and the sleep returns at once.
void Timeline::advance(uint64_t value) {
  value_.store(value, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  wake();
}

void Timeline::wake() {
  turn_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(turn_);
}

bool Timeline::spin(uint64_t target, WaitStyle style) const {
  for (int left = spins(style); left > 0; --left) {
    if (reached(target)) return true;
    spin_pause();
  }
  return false;
}

void Timeline::wait(uint64_t target, WaitStyle style) const {
  if (reached(target)) return;
  if (spin(target, style)) return;
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t turn = turn_.load(std::memory_order_seq_cst);
    if (value_.load(std::memory_order_seq_cst) >= target) break;
    futex_wait(turn_, turn);
  }
  after_other_process();
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

bool Timeline::wait_for(uint64_t target, std::chrono::nanoseconds limit) const {
  if (spin(target, WaitStyle::kSpin)) return true;
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t turn = turn_.load(std::memory_order_seq_cst);
  if (value_.load(std::memory_order_seq_cst) < target) {
    futex_wait_for(turn_, turn, limit);
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return reached(target);
}

}  // namespace openreg
