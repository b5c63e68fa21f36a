// Sleeping on a word of memory. The words may lie in memory that is shared with
// another process, so these are not the private variants.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace openreg {

// How often those who wait on the device's side look whether their work has
// been cancelled.
inline constexpr std::chrono::milliseconds kCancelPoll{5};

// Sleeps while `word` holds `expected`; wakes up for futex_wake_all, for a
// signal, or for no reason. Callers look at their condition in a loop.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected);

// The same for at most `limit`.
void futex_wait_for(const std::atomic<uint32_t>& word, uint32_t expected,
                    std::chrono::nanoseconds limit);

// Wakes every thread that sleeps on `word`.
void futex_wake_all(const std::atomic<uint32_t>& word);

// Tells the processor that this is a spinning loop.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Looks at a condition again and again, for about `limit`. Returns whether it
// became true. By the clock: how long a pause takes differs from processor to
// processor.
template <typename Condition>
bool spin_until(Condition condition, std::chrono::nanoseconds limit) {
  constexpr int kLooksPerClock = 16;
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (condition()) return true;
      spin_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace openreg
