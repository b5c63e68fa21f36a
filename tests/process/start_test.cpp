// A start: what the process gets, what it doesn't, and what goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "isolated/process/message.h"
#include "support/process.h"
#include "support/support.h"
#include "support/test_process.h"

namespace openreg::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StartTest, TheProcessGetsItsBlockAndItsDescriptors) {
  TestProcess process("echo hello");
  ASSERT_TRUE(process.status().ok()) << process.status().message();
  EXPECT_EQ(process.line(), "hello");
  EXPECT_TRUE(process->is_alive());
  EXPECT_NE(process.pid(), getpid());
  EXPECT_TRUE(process->end(kPatience));
}

TEST(StartTest, ABlockCanHoldAnyBytesUpToTheLimit) {
  const std::string bytes(kMaxText - 5, '\xfe');
  TestProcess process("echo " + bytes);
  ASSERT_TRUE(process.status().ok()) << process.status().message();
  EXPECT_EQ(process.line(), bytes);
}

TEST(StartTest, TooMuchIsRefused) {
  std::unique_ptr<DeviceProcess> process;
  StartOptions options;
  options.block.resize(kMaxText + 1);
  EXPECT_EQ(DeviceProcess::start(options, &process).code(),
            orErrorNotInitialized);
  options.block.clear();
  options.fds.assign(kMaxUserFds + 1, STDERR_FILENO);
  EXPECT_EQ(DeviceProcess::start(options, &process).code(),
            orErrorNotInitialized);
  options.fds.assign(kMaxUserFds, STDERR_FILENO);
  EXPECT_TRUE(DeviceProcess::start(options, &process).ok());
}

TEST(StartTest, TheProcessBeginsCleanly) {
  // Neither of the two is to arrive.
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const int leaky = dup(STDERR_FILENO);  // not close-on-exec

  TestProcess process("describe", 7);
  EXPECT_THAT(process.line(), HasSubstr("device=7 name=openreg-dev-7 "));
  EXPECT_THAT(process.line(), HasSubstr(" blocked=0000000000000000 "));
  // Signals from 32 on are the C library's own.
  const size_t ignored = process.line().find(" ignored=") + 9;
  EXPECT_EQ(std::stoul(process.line().substr(ignored), nullptr, 16) & ~0u >> 1,
            0u);
  EXPECT_THAT(process.line(), HasSubstr(" 0=/dev/null "));
  EXPECT_THAT(process.line(),
              Not(HasSubstr("session=" + std::to_string(getsid(0)) + " ")));
  // Its own: the parent's pidfd, the pipe of its life, the descriptor given.
  const std::string open = process.line().substr(process.line().find("open:"));
  EXPECT_EQ(std::count(open.begin(), open.end(), '='), 3 + 3) << open;
  EXPECT_THAT(open, Not(HasSubstr("socket")));
  close(leaky);
  signal(SIGPIPE, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
}

TEST(StartTest, ManyDevicesLiveAtATime) {
  constexpr int kDevices = 16;
  std::vector<std::unique_ptr<TestProcess>> processes;
  std::set<pid_t> pids;
  for (int device = 0; device < kDevices; ++device) {
    processes.push_back(std::make_unique<TestProcess>("wait", device));
    ASSERT_EQ(processes.back()->line(), "ready");
    pids.insert(processes.back()->pid());
  }
  EXPECT_EQ(pids.size(), kDevices);
  for (auto& process : processes) EXPECT_TRUE((*process)->end(kPatience));
}

TEST(StartTest, ThreadsCanStartDevicesAtATime) {
  std::vector<std::thread> threads;
  for (int device = 0; device < 8; ++device) {
    threads.emplace_back([device] {
      TestProcess process("echo " + std::to_string(device), device);
      EXPECT_EQ(process.line(), std::to_string(device));
      EXPECT_TRUE(process->end(kPatience));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A process ends with its parent, not with the thread that has started it.
TEST(StartTest, TheProcessOutlivesTheThreadThatStartedIt) {
  std::unique_ptr<TestProcess> process;
  std::thread([&] { process = std::make_unique<TestProcess>("wait"); }).join();
  const ProcessHandle handle(process->pid());
  EXPECT_FALSE(handle.ends_within(std::chrono::milliseconds(500)));
  EXPECT_TRUE((*process)->is_alive());
}

TEST(StartTest, AHundredStartsLeaveNothingBehind) {
  TestProcess("wait").destroy();
  const std::vector<int> before = open_descriptors();
  const size_t threads = thread_ids().size();
  // A sanitized process takes a second to end.
  const int starts = is_sanitized() ? 10 : 100;
  for (int i = 0; i < starts; ++i) {
    TestProcess process("wait");
    ASSERT_EQ(process.line(), "ready") << process.status().message();
    const ProcessHandle handle(process.pid());
    if (i % 2 == 0)
      process.destroy();
    else
      EXPECT_TRUE(process->end(kPatience));
    EXPECT_TRUE(handle.ends_within(std::chrono::milliseconds(0)));
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(thread_ids().size(), threads);
}

TEST(StartTest, ALaterStartTakesMilliseconds) {
  TestProcess first("wait");
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kStarts = 20;
  for (int i = 0; i < kStarts; ++i) TestProcess("wait").destroy();
  const std::chrono::duration<double, std::milli> time =
      std::chrono::steady_clock::now() - begin;
  std::printf("%.2f ms a start and kill\n", time.count() / kStarts);
  EXPECT_LT(time.count() / kStarts, is_sanitized() ? 1000 : 100);
}

OPENREG_CHILD(start_without_standard_streams) {
  const int keep = dup(STDERR_FILENO);
  for (int fd = 0; fd <= 2; ++fd) close(fd);
  TestProcess process("describe");
  const std::vector<int> open = open_descriptors();
  dup2(keep, STDERR_FILENO);
  // None of ours took their places, so they can be opened again.
  for (int fd = 0; fd <= 2; ++fd) {
    CHILD_CHECK(std::find(open.begin(), open.end(), fd) == open.end());
  }
  for (const char* stream : {" 0=/dev/null", " 1=/dev/null", " 2=/dev/null"}) {
    CHILD_CHECK(process.line().find(stream) != std::string::npos);
  }
  CHILD_CHECK(process->end(kPatience));
  return 0;
}

TEST(StartTest, WorksWithoutStandardStreams) {
  const ChildResult child = run_child("start_without_standard_streams");
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

OPENREG_CHILD(fail_to_start) {
  std::unique_ptr<DeviceProcess> process;
  const Status status = DeviceProcess::start({}, &process);
  std::printf("%s: %s\n", orGetErrorName(status.code()),
              status.message().c_str());
  return 0;
}

TEST(StartTest, AMissingProgramIsNamed) {
  const ChildResult child =
      run_child("fail_to_start", {{"OPENREG_DEVICE_PROGRAM", "/no/program"}});
  EXPECT_EQ(child.exit_code, 0);
  EXPECT_THAT(child.output,
              HasSubstr("orErrorNotInitialized: cannot start the device "
                        "process '/no/program': No such file or directory"));
}

TEST(StartTest, AnotherProgramIsRefused) {
  const ChildResult child =
      run_child("fail_to_start", {{"OPENREG_DEVICE_PROGRAM", "/bin/false"}});
  EXPECT_EQ(child.exit_code, 0);
  EXPECT_THAT(child.output, HasSubstr("'/bin/false': it has ended (it exited "
                                      "with code 1)"));
}

TEST(StartTest, TheProgramIsNotForPeople) {
  const std::string command =
      std::string(OPENREG_TEST_DEVICE) + " --zygote 2>&1 3<&-";
  FILE* const output = popen(command.c_str(), "r");
  char line[200] = {};
  EXPECT_NE(std::fgets(line, sizeof line, output), nullptr);
  EXPECT_THAT(line, HasSubstr("is started by libopenreg"));
  EXPECT_EQ(WEXITSTATUS(pclose(output)), 2);
}

}  // namespace
}  // namespace openreg::test
