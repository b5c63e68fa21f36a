#include "core/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace openreg {

namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

long futex(const std::atomic<uint32_t>& word, int operation, uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) {
  futex(word, FUTEX_WAIT, expected, nullptr);
}

void futex_wait_for(const std::atomic<uint32_t>& word, uint32_t expected,
                    std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit);
  const timespec timeout{static_cast<time_t>(seconds.count()),
                         static_cast<long>((limit - seconds).count())};
  futex(word, FUTEX_WAIT, expected, &timeout);
}

void futex_wake_all(const std::atomic<uint32_t>& word) {
  futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace openreg
