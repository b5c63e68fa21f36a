// The program's own children: devices are not among them, and they get nothing
// of the devices.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "support/background.h"
#include "support/support.h"
#include "support/test_process.h"

namespace openreg::test {
namespace {

TEST(FamilyTest, DevicesAreNobodysChildren) {
  TestProcess process("wait");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(process.line(), "ready");
  ::kill(process.pid(), SIGKILL);
  EXPECT_TRUE(process.await_death().has_value());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// Waiting for "any child" returns the program's own one.
TEST(FamilyTest, AnyChildIsTheProgramsOwn) {
  TestProcess process("wait");
  const pid_t child = fork();
  if (child == 0) _exit(5);
  int status = 0;
  EXPECT_EQ(waitpid(-1, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

std::atomic<int> child_signals = 0;

TEST(FamilyTest, AtMostOneSignalOfAChildAtTheFirstStart) {
  struct sigaction action{};
  action.sa_handler = [](int) { ++child_signals; };
  ASSERT_EQ(sigaction(SIGCHLD, &action, nullptr), 0);
  for (int i = 0; i < 5; ++i) {
    TestProcess process("exit 3");
    EXPECT_TRUE(process.await_death().has_value());
  }
  EXPECT_LE(child_signals, 1);
  signal(SIGCHLD, SIG_DFL);
}

OPENREG_CHILD(ignore_children) {
  signal(SIGCHLD, SIG_IGN);
  TestProcess process("exit 3");
  CHILD_CHECK(process.await_death() == "exited with code 3");
  return 0;
}

TEST(FamilyTest, AProgramMayIgnoreItsChildren) {
  const ChildResult child = run_child("ignore_children");
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

// Another thread may take the first process before we do.
OPENREG_CHILD(reap_everything) {
  std::atomic<bool> stop = false;
  Background reaper([&stop] {
    while (!stop) waitpid(-1, nullptr, WNOHANG);
  });
  TestProcess process("exit 3");
  const bool good = process.await_death() == "exited with code 3";
  stop = true;
  CHILD_CHECK(good);
  return 0;
}

TEST(FamilyTest, AProgramMayReapEverything) {
  const ChildResult child = run_child("reap_everything");
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

OPENREG_CHILD(fork_without_descriptors) {
  const std::vector<int> before = open_descriptors();
  TestProcess process("wait");
  CHILD_CHECK(open_descriptors().size() > before.size());
  CHILD_CHECK(run_forked([&] { return open_descriptors() == before; }) == 1);
  CHILD_CHECK(process->is_alive());
  return 0;
}

TEST(FamilyTest, AForkedChildHasNoneOfTheDescriptors) {
  const ChildResult child = run_child("fork_without_descriptors");
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

TEST(FamilyTest, AForkedChildDoesNotDisturbTheDevice) {
  TestProcess process("wait");
  const int code = run_forked([&] {
    const bool alive = process->is_alive();
    process->kill("by the child");
    process->request_end();
    const bool ended = process->end(std::chrono::milliseconds(10));
    process.destroy();
    end_zygote();
    return alive || ended ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(process.await_death(std::chrono::milliseconds(300)), std::nullopt);
  EXPECT_TRUE(process->end(kPatience));
}

TEST(FamilyTest, ANewProgramHasNoneOfTheDescriptors) {
  const std::vector<int> before = open_descriptors();
  TestProcess process("wait");
  FILE* const output = popen("ls /proc/self/fd | wc -l", "r");
  int count = 0;
  EXPECT_EQ(std::fscanf(output, "%d", &count), 1);
  pclose(output);
  // Its own directory comes on top.
  EXPECT_LE(count, static_cast<int>(before.size()) + 1);
}

TEST(FamilyTest, AForkAtAnyMomentOfAStartIsSafe) {
  std::atomic<bool> stop = false;
  Background starter([&stop] {
    while (!stop) EXPECT_EQ(TestProcess("wait").line(), "ready");
  });
  for (int i = 0; i < 50; ++i) EXPECT_EQ(run_forked([] { return 0; }), 0);
  stop = true;
}

}  // namespace
}  // namespace openreg::test
