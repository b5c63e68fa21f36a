// The end of the program: however it comes, no process is left.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "support/support.h"
#include "support/test_process.h"

namespace openreg::test {
namespace {

// What the project promises.
constexpr std::chrono::seconds kOrphansEndWithin{2};

// Starts three devices and prints the numbers of all processes.
std::vector<std::unique_ptr<TestProcess>>& start_devices() {
  static auto* const processes = new std::vector<std::unique_ptr<TestProcess>>;
  for (int device = 0; device < 3; ++device) {
    // The last one shows that nobody has to be nice.
    const char* const act = device == 2 ? "ignore end" : "wait";
    processes->push_back(std::make_unique<TestProcess>(act, device));
    std::printf("%d\n", processes->back()->pid());
  }
  std::printf("%d\n", zygote_of(processes->front()->pid()));
  std::fflush(stdout);
  return *processes;
}

// What start_devices() has printed, in another process.
std::vector<std::unique_ptr<ProcessHandle>> read_processes(
    RunningChild& parent) {
  std::vector<std::unique_ptr<ProcessHandle>> result;
  for (int i = 0; i < 4; ++i) {
    const pid_t pid = std::atoi(parent.read_line().c_str());
    EXPECT_GT(pid, 1);
    result.push_back(std::make_unique<ProcessHandle>(pid));
    EXPECT_FALSE(result.back()->ends_within(std::chrono::milliseconds(0)));
  }
  return result;
}

void expect_all_end(
    const std::vector<std::unique_ptr<ProcessHandle>>& processes) {
  const auto deadline = std::chrono::steady_clock::now() + kOrphansEndWithin;
  for (const auto& process : processes) {
    EXPECT_TRUE(
        process->ends_within(std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now())));
  }
}

void sleep_on() {
  while (true) pause();
}

OPENREG_CHILD(start_and_sleep) {
  start_devices();
  sleep_on();
  return 0;
}

TEST(ParentTest, NothingIsLeftAfterASigkill) {
  RunningChild parent("start_and_sleep");
  const auto processes = read_processes(parent);
  parent.send(SIGKILL);
  expect_all_end(processes);
}

OPENREG_CHILD(kill_the_zygote_and_sleep) {
  const auto& processes = start_devices();
  const pid_t zygote = zygote_of(processes.front()->pid());
  getchar();  // until the test has seen them all
  ::kill(zygote, SIGKILL);
  const ProcessHandle handle(zygote);
  CHILD_CHECK(handle.ends_within(kPatience));
  std::puts("killed");
  std::fflush(stdout);
  sleep_on();
  return 0;
}

TEST(ParentTest, NothingIsLeftWithoutTheZygote) {
  RunningChild parent("kill_the_zygote_and_sleep");
  const auto processes = read_processes(parent);
  parent.write_line();
  EXPECT_EQ(parent.read_line(), "killed");
  parent.send(SIGKILL);
  expect_all_end(processes);
}

OPENREG_CHILD(fork_and_sleep) {
  start_devices();
  getchar();
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(30);
    std::printf("%d\n", getpid());
    std::fflush(stdout);
    sleep_on();
  }
  sleep_on();
  return 0;
}

TEST(ParentTest, AForkedChildThatLivesOnHoldsNobody) {
  RunningChild parent("fork_and_sleep");
  const auto processes = read_processes(parent);
  parent.write_line();
  const pid_t forked = std::atoi(parent.read_line().c_str());
  ASSERT_GT(forked, 1);
  parent.send(SIGKILL);
  expect_all_end(processes);
  EXPECT_EQ(::kill(forked, SIGKILL), 0);
}

OPENREG_CHILD(become_another_program) {
  start_devices();
  getchar();
  execl("/bin/sleep", "sleep", "30", nullptr);
  return 1;
}

TEST(ParentTest, NothingIsLeftAfterAnExec) {
  RunningChild parent("become_another_program");
  const auto processes = read_processes(parent);
  parent.write_line();
  expect_all_end(processes);
}

OPENREG_CHILD(start_and_exit) {
  start_devices();
  getchar();
  std::exit(3);
}

TEST(ParentTest, NothingIsLeftAfterAnExit) {
  RunningChild parent("start_and_exit");
  const auto processes = read_processes(parent);
  parent.write_line();
  EXPECT_EQ(parent.await(), 3);
  expect_all_end(processes);
}

}  // namespace
}  // namespace openreg::test
