#include "core/timeline.h"

#include "core/futex.h"

namespace openreg {

namespace {

// The time that a sleeping thread would need to come back.
constexpr std::chrono::microseconds kSpin{20};
constexpr std::chrono::microseconds kBriefSpin{10};

}  // namespace

// Note [Sleeping without missing the wake-up]
// A waiter announces its target in `nearest_` and then looks at the value; the
// advancing thread stores the value and then looks at `nearest_`. Both are
// sequentially consistent, so at least one of them sees the other. The waiter
// reads `turn_` before it announces itself, so a wake-up that comes between the
// look and the sleep changes the word and the sleep returns at once.
//
// Only the nearest target is known: a stream does not wake a thread for each
// command before the one that it waits for. Whoever is woken too early
// announces itself again. Waking forgets the target before it changes `turn_`,
// so an announcement that gets lost was made under the old turn, which is over.
void Timeline::advance(uint64_t value) {
  value_.store(value, std::memory_order_seq_cst);
  if (nearest_.load(std::memory_order_seq_cst) > value) return;
  wake();
}

void Timeline::wake() {
  nearest_.store(kNobody, std::memory_order_seq_cst);
  turn_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(turn_);
}

void Timeline::announce(uint64_t target) const {
  uint64_t nearest = nearest_.load(std::memory_order_seq_cst);
  while (target < nearest && !nearest_.compare_exchange_weak(
                                 nearest, target, std::memory_order_seq_cst)) {
  }
}

bool Timeline::spin(uint64_t target, WaitStyle style) const {
  if (style == WaitStyle::kSleep) return reached(target);
  return spin_until([&] { return reached(target); },
                    style == WaitStyle::kSpin ? kSpin : kBriefSpin);
}

void Timeline::wait(uint64_t target, WaitStyle style) const {
  if (reached(target)) return;
  if (spin(target, style)) return;
  for (;;) {
    const uint32_t turn = turn_.load(std::memory_order_seq_cst);
    announce(target);
    if (value_.load(std::memory_order_seq_cst) >= target) break;
    futex_wait(turn_, turn);
  }
  after_other_process();
}

bool Timeline::wait_for(uint64_t target, std::chrono::nanoseconds limit) const {
  if (spin(target, WaitStyle::kSpin)) return true;
  const uint32_t turn = turn_.load(std::memory_order_seq_cst);
  announce(target);
  if (value_.load(std::memory_order_seq_cst) < target) {
    futex_wait_for(turn_, turn, limit);
  }
  return reached(target);
}

}  // namespace openreg
