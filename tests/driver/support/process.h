// What the tests ask the kernel about their own process, and a wait that polls
// for what has no event of its own.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <set>

namespace openreg::test {

// VmRSS: the bytes of this process, and of its device processes, that are in
// memory. Memory that they share counts for each.
size_t resident_bytes();

// The threads of this process and of its device processes.
std::set<pid_t> thread_ids();

// The threads of `after` that are not in `before`.
std::set<pid_t> new_threads(const std::set<pid_t>& before,
                            const std::set<pid_t>& after);

// True if every one of `threads` sleeps in the kernel, many looks in a row.
bool are_asleep(const std::set<pid_t>& threads);

// Yields until `condition` holds, and returns true; gives up after a minute.
// For what happens soon but tells nobody, such as a thread that ends.
template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    sched_yield();
  }
  return true;
}

}  // namespace openreg::test
