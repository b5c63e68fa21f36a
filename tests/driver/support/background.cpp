#include "support/background.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "support/process.h"

namespace openreg::test {

Background::Background(std::function<void()> body)
    : thread_([this, body = std::move(body)] {
        thread_id_ = gettid();
        body();
        done_ = true;
      }) {}

void Background::settle() {
  using Clock = std::chrono::steady_clock;
  // A thread that neither returns nor sleeps spins, which is blocking too.
  const Clock::time_point end = Clock::now() + std::chrono::seconds(2);
  while (!done() && Clock::now() < end) {
    const pid_t id = thread_id_;
    if (id != 0 && are_asleep({id})) return;
    std::this_thread::yield();
  }
}

void Background::join() {
  if (thread_.joinable()) thread_.join();
}

int run_forked(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  EXPECT_GT(child, 0) << "fork failed";
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace openreg::test
