// How far a stream has come: a number that only grows, and threads that wait
// for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/process_order.h"

namespace openreg {

// How a thread waits: first awake, which is quick; not so long, because who is
// waited for may need the same processor; or asleep at once.
enum class WaitStyle { kSpin, kSpinBriefly, kSleep };

// Thread-safe: one thread at a time advances, any number read and wait. What
// the advancing thread wrote before is visible to whoever has seen the number.
class Timeline {
 public:
  uint64_t value() const {
    const uint64_t value = value_.load(std::memory_order_acquire);
    after_other_process();
    return value;
  }
  bool reached(uint64_t target) const { return value() >= target; }

  // Sets the number, which must not shrink, and wakes those who wait for it.
  void advance(uint64_t value);

  // Makes those who wait look again, and wait_for() return.
  void wake();

  // Waits until the number is at least `target`.
  void wait(uint64_t target, WaitStyle style = WaitStyle::kSpin) const;

  // The same for at most `limit`, more or less. Returns whether the number was
  // reached.
  bool wait_for(uint64_t target, std::chrono::nanoseconds limit) const;

 private:
  bool spin(uint64_t target, WaitStyle style) const;
  // Asks to be woken when the number is `target`.
  void announce(uint64_t target) const;

  static constexpr uint64_t kNobody = UINT64_MAX;

  std::atomic<uint64_t> value_{0};
  mutable std::atomic<uint64_t> nearest_{kNobody};  // target of a waiter
  std::atomic<uint32_t> turn_{0};  // the word to sleep on; changes when waking
};

}  // namespace openreg
