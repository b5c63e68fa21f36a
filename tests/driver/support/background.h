// A call that may block, on a thread of its own, and a body that runs in a
// fork. Children that are new programs are in support.h.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <thread>

namespace openreg::test {

// Runs `body` on a new thread, so on device 0. Joins at the end of the scope: a
// test that expects `body` to block opens what blocks it first.
class Background {
 public:
  explicit Background(std::function<void()> body);
  ~Background() { join(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Whether `body` has returned.
  bool done() const { return done_.load(); }

  // Waits until `body` has returned or sleeps in the kernel. After this, "not
  // done" means that it is blocked and not merely late.
  void settle();

  void join();

 private:
  std::atomic<pid_t> thread_id_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;  // last: it uses the others
};

// Runs `body` in a fork of this process, which ends with the value that it
// returns. A child that hangs is killed by SIGALRM. Returns the exit code, or
// minus the signal.
int run_forked(const std::function<int()>& body);

}  // namespace openreg::test
