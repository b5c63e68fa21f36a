// The ends of a device process: what is said of them, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/support.h"
#include "support/test_process.h"

namespace openreg::test {
namespace {

using std::chrono::milliseconds;
using ::testing::Eq;
using ::testing::Optional;

struct Death {
  const char* act;
  const char* reason;
};

class DeathTest : public ::testing::TestWithParam<Death> {};

TEST_P(DeathTest, IsReportedWithItsReasonWithinASecond) {
  const auto begin = std::chrono::steady_clock::now();
  TestProcess process(GetParam().act);
  ASSERT_EQ(process.line(), "ready");
  EXPECT_THAT(process.await_death(), Optional(Eq(GetParam().reason)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            is_sanitized() ? 5 * kPromptly : kPromptly);
  EXPECT_FALSE(process->is_alive());
  process.destroy();
  EXPECT_EQ(process.deaths(), 1);
}

INSTANTIATE_TEST_SUITE_P(
    AllKinds, DeathTest,
    ::testing::Values(Death{"exit 3", "exited with code 3"},
                      Death{"exit 0", "exited with code 0"},
                      Death{"abort", "was killed by signal 6 (SIGABRT)"},
                      Death{"crash", "was killed by signal 11 (SIGSEGV)"},
                      Death{"kill 9", "was killed by signal 9 (SIGKILL)"},
                      Death{"kill 40", "was killed by signal 40"}),
    [](const auto& death) {
      std::string name = death.param.act;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(KillTest, SigkillFromOutsideIsReportedWithinASecond) {
  TestProcess process("wait");
  ::kill(process.pid(), SIGKILL);
  EXPECT_THAT(process.await_death(kPromptly),
              Optional(Eq("was killed by signal 9 (SIGKILL)")));
}

TEST(KillTest, AKillOfOursHasOurReason) {
  TestProcess process("wait");
  process->kill("said something strange");
  EXPECT_THAT(process.await_death(kPromptly),
              Optional(Eq("said something strange")));
  process->kill("again");
  EXPECT_FALSE(process->is_alive());
  EXPECT_EQ(process.deaths(), 1);
}

TEST(KillTest, OnlyTheDeadOneIsReported) {
  TestProcess first("wait", 0);
  TestProcess second("wait", 1);
  ::kill(first.pid(), SIGKILL);
  EXPECT_TRUE(first.await_death().has_value());
  EXPECT_TRUE(second->is_alive());
  EXPECT_EQ(second.deaths(), 0);
}

TEST(KillTest, TheReportComesBeforeTheObjectGoes) {
  for (int i = 0; i < 20; ++i) {
    TestProcess process("exit 3");
    process.destroy();  // reported or not: never afterwards
    const int deaths = process.deaths();
    TestProcess("wait").destroy();
    EXPECT_EQ(process.deaths(), deaths);
  }
}

TEST(EndTest, AWantedEndIsNotReported) {
  TestProcess process("wait");
  const ProcessHandle handle(process.pid());
  EXPECT_TRUE(process->end(kPatience));
  EXPECT_TRUE(handle.ends_within(milliseconds(0)));
  EXPECT_FALSE(process->is_alive());
  process.destroy();
  EXPECT_EQ(process.deaths(), 0);
}

TEST(EndTest, AProcessWithoutAHandlerEndsToo) {
  TestProcess process("sleep");
  EXPECT_TRUE(process->end(kPatience));
}

TEST(EndTest, OneThatDoesNotWantToIsKilled) {
  TestProcess process("ignore end");
  const ProcessHandle handle(process.pid());
  EXPECT_FALSE(process->end(milliseconds(100)));
  EXPECT_TRUE(handle.ends_within(milliseconds(0)));
  process.destroy();
  EXPECT_EQ(process.deaths(), 0);
}

TEST(EndTest, SeveralEndAtATime) {
  TestProcess first("wait");
  TestProcess second("wait");
  first->request_end();
  second->request_end();
  EXPECT_TRUE(first->end(kPatience));
  EXPECT_TRUE(second->end(kPatience));
}

TEST(EndTest, DestructionKills) {
  TestProcess process("ignore end");
  const ProcessHandle handle(process.pid());
  process.destroy();
  EXPECT_TRUE(handle.ends_within(milliseconds(0)));
  EXPECT_EQ(process.deaths(), 0);
}

TEST(HeartbeatTest, AStoppedProcessIsReported) {
  TestProcess process("wait", 0, milliseconds(500));
  const ProcessHandle handle(process.pid());
  ::kill(process.pid(), SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(process.await_death(),
              Optional(Eq("has not answered for 500 ms: it is stopped")));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(300));
  EXPECT_TRUE(handle.ends_within(kPatience)) << "it was not killed";
}

TEST(HeartbeatTest, WithoutALimitAStoppedProcessMayGoOn) {
  TestProcess watched("wait", 0, milliseconds(300));
  TestProcess process("wait", 1, milliseconds(0));
  ::kill(process.pid(), SIGSTOP);
  ::kill(watched.pid(), SIGSTOP);
  EXPECT_TRUE(watched.await_death().has_value());
  EXPECT_FALSE(process.await_death(milliseconds(1000)).has_value());
  ::kill(process.pid(), SIGCONT);
  EXPECT_TRUE(process->end(kPatience));
}

TEST(HeartbeatTest, AnIdleProcessLivesOn) {
  TestProcess process("wait", 0, milliseconds(200));
  EXPECT_EQ(process.await_death(milliseconds(1500)), std::nullopt);
}

// The thread that gives signs of life.
pid_t life_thread(pid_t process) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(tasks)) {
    std::ifstream file(entry.path() / "comm");
    std::string name;
    std::getline(file, name);
    if (name == "openreg-life") {
      return std::atoi(entry.path().filename().c_str());
    }
  }
  return 0;
}

TEST(HeartbeatTest, ADebuggerMayHoldAProcess) {
  TestProcess process("wait", 0, milliseconds(300));
  const pid_t thread = life_thread(process.pid());
  ASSERT_NE(thread, 0);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, thread, nullptr, nullptr), 0);
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr), 0);
  ASSERT_EQ(waitpid(thread, nullptr, __WALL), thread);
  EXPECT_EQ(process.await_death(milliseconds(1000)), std::nullopt);
  ASSERT_EQ(ptrace(PTRACE_DETACH, thread, nullptr, nullptr), 0);
  EXPECT_TRUE(process->end(kPatience));
}

OPENREG_CHILD(be_stopped) {
  TestProcess process("wait", 0, milliseconds(300));
  std::puts("started");
  std::fflush(stdout);
  raise(SIGSTOP);
  // Two more limits for what may be reported.
  CHILD_CHECK(process.await_death(milliseconds(600)) == std::nullopt);
  CHILD_CHECK(process->end(kPatience));
  return 0;
}

TEST(HeartbeatTest, AStoppedParentDoesNotTakeItsDeviceForDead) {
  RunningChild parent("be_stopped");
  ASSERT_EQ(parent.read_line(), "started");
  // Three limits pass while it is stopped.
  TestProcess clock("wait", 0, milliseconds(900));
  ::kill(clock.pid(), SIGSTOP);
  EXPECT_TRUE(clock.await_death().has_value());
  parent.send(SIGCONT);
  EXPECT_EQ(parent.await(), 0);
}

}  // namespace
}  // namespace openreg::test
