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

}  // namespace openreg
