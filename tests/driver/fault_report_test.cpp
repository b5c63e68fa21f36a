// What happens when the host touches device memory: a report on standard error
// that says which memory, then whatever a SIGSEGV does without the driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/background.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kReport[] = "openreg: the host touched device memory at ";

class FaultReportTest : public ::testing::Test {};

// Runs a child in which SIGSEGV is not the sanitizer's.
ChildResult run_faulting(
    const std::string& child,
    std::vector<std::pair<std::string, std::string>> env = {}) {
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}) {
    const char* options = std::getenv(name);
    const std::string before = options != nullptr && *options != '\0'
                                   ? options + std::string(":")
                                   : "";
    env.emplace_back(name, before + "handle_segv=0");
  }
  return run_child(child, env);
}

std::string hex(const void* ptr) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", ptr);
  return text;
}

// Tells the parent an address, under a name.
void tell(const char* name, const void* ptr) {
  std::fprintf(stderr, "%s=%s.\n", name, hex(ptr).c_str());
}

// The address that the child told.
std::string told(const ChildResult& child, const std::string& name) {
  const size_t start = child.output.find(name + "=") + name.size() + 1;
  return child.output.substr(start, child.output.find('.', start) - start);
}

// Reads a byte that the compiler knows nothing about.
void touch(const void* ptr) {
  const volatile uintptr_t address = reinterpret_cast<uintptr_t>(ptr);
  (void)*reinterpret_cast<const volatile char*>(address);
}

void expect_killed(const ChildResult& child) {
  EXPECT_EQ(child.signal, SIGSEGV) << "exit code " << child.exit_code << "\n"
                                   << child.output;
}

void expect_report(const ChildResult& child, const std::string& what) {
  EXPECT_THAT(child.output, HasSubstr(kReport + told(child, "touched")));
  EXPECT_THAT(child.output, HasSubstr(what));
  EXPECT_THAT(child.output, HasSubstr("orMemcpy"));
}

OPENREG_CHILD(read_live) {
  const char* ptr = device_malloc(1024);
  tell("base", ptr);
  tell("touched", ptr + 16);
  touch(ptr + 16);
  return 0;
}

TEST_F(FaultReportTest, AReadOfALiveAllocationIsReported) {
  const ChildResult child = run_faulting("read_live");
  expect_killed(child);
  expect_report(child,
                "device 0, 16 bytes into a live allocation of 1024 bytes at " +
                    told(child, "base"));
}

OPENREG_CHILD(write_live) {
  char* ptr = device_malloc(100);
  tell("base", ptr);
  tell("touched", ptr);
  *static_cast<volatile char*>(ptr) = 1;
  return 0;
}

TEST_F(FaultReportTest, AWriteIsReported) {
  const ChildResult child = run_faulting("write_live");
  expect_killed(child);
  expect_report(child,
                "device 0, 0 bytes into a live allocation of 100 bytes at " +
                    told(child, "base"));
}

OPENREG_CHILD(read_second_device) {
  const OnDevice one(1);
  const char* ptr = device_malloc(100);
  tell("touched", ptr + 99);
  touch(ptr + 99);
  return 0;
}

TEST_F(FaultReportTest, TheDeviceIsNamed) {
  const ChildResult child = run_faulting("read_second_device");
  expect_killed(child);
  expect_report(child,
                "device 1, 99 bytes into a live allocation of 100 bytes");
}

OPENREG_CHILD(read_on_thread) {
  std::thread([] {
    const char* ptr = device_malloc(100);
    tell("touched", ptr);
    touch(ptr);
  }).join();
  return 0;
}

TEST_F(FaultReportTest, AnyThreadIsReported) {
  const ChildResult child = run_faulting("read_on_thread");
  expect_killed(child);
  expect_report(child, "device 0, 0 bytes into a live allocation of 100 bytes");
}

OPENREG_CHILD(read_freed) {
  char* ptr = device_malloc(2048);
  tell("base", ptr);
  if (orFree(ptr) != orSuccess) return 1;
  tell("touched", ptr + 8);
  touch(ptr + 8);
  return 0;
}

TEST_F(FaultReportTest, AReadOfAFreedAllocationIsReported) {
  const ChildResult child = run_faulting("read_freed");
  expect_killed(child);
  expect_report(child,
                "a freed allocation of 2048 bytes at " + told(child, "base"));
}

OPENREG_CHILD(read_never_allocated) {
  const char* first = device_malloc(512);
  const char* second = device_malloc(512);
  // On in the direction in which the driver hands out memory.
  const char* never = second + 64 * (second - first);
  tell("touched", never);
  touch(never);
  return 0;
}

TEST_F(FaultReportTest, AReadOfMemoryThatNobodyEverHadIsReported) {
  const ChildResult child = run_faulting("read_never_allocated");
  expect_killed(child);
  expect_report(child, "memory that was never allocated");
}

OPENREG_CHILD(read_after_reset) {
  const char* ptr = device_malloc(100);
  if (orDeviceReset() != orSuccess) return 1;
  tell("touched", ptr);
  touch(ptr);
  return 0;
}

TEST_F(FaultReportTest, AReadOfMemoryFromBeforeAResetIsReported) {
  const ChildResult child = run_faulting("read_after_reset");
  expect_killed(child);
  expect_report(child, "memory from before the device was reset");
}

TEST_F(FaultReportTest, TheReportCanBeSwitchedOff) {
  const ChildResult child =
      run_faulting("read_live", {{"OPENREG_FAULT_HANDLER", "0"}});
  expect_killed(child);
  EXPECT_THAT(child.output, Not(HasSubstr("openreg:")));
}

OPENREG_CHILD(read_null) {
  device_malloc(100);
  touch(reinterpret_cast<const char*>(16));
  return 0;
}

TEST_F(FaultReportTest, AnUnrelatedFaultIsNotReported) {
  const ChildResult child = run_faulting("read_null");
  expect_killed(child);
  EXPECT_THAT(child.output, Not(HasSubstr("openreg:")));
}

OPENREG_CHILD(raise_signal) {
  device_malloc(100);
  raise(SIGSEGV);
  return 0;
}

TEST_F(FaultReportTest, ASignalThatSomebodySentIsNotReported) {
  const ChildResult child = run_faulting("raise_signal");
  expect_killed(child);
  EXPECT_THAT(child.output, Not(HasSubstr("openreg:")));
}

OPENREG_CHILD(read_in_forked_child) {
  const char* ptr = device_malloc(100);
  return run_forked([ptr] {
           touch(ptr);
           return 0;
         }) == -SIGSEGV
             ? 0
             : 1;
}

TEST_F(FaultReportTest, AForkedChildThatTouchesDeviceMemoryDiesToo) {
  const ChildResult child = run_faulting("read_in_forked_child");
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

// Handlers of the program. They may only do what a signal handler may.

void say(const char* text) {
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text, std::char_traits<char>::length(text));
}

const char* expected_address = nullptr;
struct sigaction earlier_action;
sigjmp_buf recovery;

void leave_with_42(int) {
  say("the program's handler\n");
  _exit(42);
}

void check_and_leave_with_42(int signal, siginfo_t* info, void* context) {
  const bool right = signal == SIGSEGV && context != nullptr &&
                     info->si_addr == expected_address;
  say(right ? "the program's handler\n" : "wrong arguments\n");
  _exit(42);
}

// As Python's faulthandler does: says something and hands over to the handler
// before it by letting the fault happen again.
void chain(int) {
  say("the program's handler\n");
  sigaction(SIGSEGV, &earlier_action, nullptr);
}

void recover(int) { siglongjmp(recovery, 1); }

void install(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, &earlier_action);
}

void install_with_info(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &earlier_action);
}

// Allocates and touches, so that a handler installed before is an earlier one.
int allocate_and_touch() {
  const char* ptr = device_malloc(100);
  expected_address = ptr;
  tell("touched", ptr);
  touch(ptr);
  return 0;
}

OPENREG_CHILD(earlier_handler) {
  install(leave_with_42);
  return allocate_and_touch();
}
OPENREG_CHILD(earlier_handler_with_info) {
  install_with_info(check_and_leave_with_42);
  return allocate_and_touch();
}

TEST_F(FaultReportTest, AnEarlierHandlerRunsAfterTheReport) {
  for (const char* name : {"earlier_handler", "earlier_handler_with_info"}) {
    const ChildResult child = run_faulting(name);
    EXPECT_EQ(child.exit_code, 42) << child.output;
    expect_report(child, "live allocation of 100 bytes");
    EXPECT_GT(child.output.find("the program's handler"),
              child.output.find(kReport));
    EXPECT_THAT(child.output, HasSubstr("the program's handler"));
  }
}

OPENREG_CHILD(earlier_handler_unrelated) {
  install(leave_with_42);
  device_malloc(100);
  touch(reinterpret_cast<const char*>(16));
  return 0;
}

TEST_F(FaultReportTest, AnEarlierHandlerGetsUnrelatedFaults) {
  const ChildResult child = run_faulting("earlier_handler_unrelated");
  EXPECT_EQ(child.exit_code, 42) << child.output;
  EXPECT_THAT(child.output, Not(HasSubstr("openreg:")));
}

OPENREG_CHILD(earlier_chaining_handler) {
  install(chain);
  return allocate_and_touch();
}
OPENREG_CHILD(later_chaining_handler) {
  const char* ptr = device_malloc(100);
  install(chain);
  tell("touched", ptr);
  touch(ptr);
  return 0;
}

TEST_F(FaultReportTest, AHandlerThatHandsOverIsHeardBesideTheReport) {
  for (const char* name :
       {"earlier_chaining_handler", "later_chaining_handler"}) {
    const ChildResult child = run_faulting(name);
    expect_killed(child);
    expect_report(child, "live allocation of 100 bytes");
    EXPECT_THAT(child.output, HasSubstr("the program's handler")) << name;
  }
}

OPENREG_CHILD(earlier_ignore) {
  install(SIG_IGN);
  return allocate_and_touch();
}

TEST_F(FaultReportTest, AnIgnoredSignalStillKills) {
  const ChildResult child = run_faulting("earlier_ignore");
  expect_killed(child);
  expect_report(child, "live allocation of 100 bytes");
}

// Touches, and recovers if that faults.
void touch_and_recover(const void* ptr) {
  if (sigsetjmp(recovery, 1) == 0) touch(ptr);
}

OPENREG_CHILD(earlier_recovering_handler) {
  install(recover);
  const char* ptr = device_malloc(100);
  tell("touched", ptr);
  for (int i = 0; i < 2; ++i) touch_and_recover(ptr);
  CHILD_CHECK(orDeviceSynchronize() == orSuccess);
  return 0;
}

TEST_F(FaultReportTest, AProgramThatRecoversGoesOnAndEveryFaultIsReported) {
  const ChildResult child = run_faulting("earlier_recovering_handler");
  EXPECT_EQ(child.exit_code, 0) << child.output;
  const size_t first = child.output.find(kReport);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(child.output.find(kReport, first + 1), std::string::npos);
}

OPENREG_CHILD(read_live_while_memory_is_busy) {
  install(recover);
  const char* ptr = device_malloc(100);
  std::atomic<bool> over = false;
  std::thread allocator([&over] {
    while (!over) orFree(device_malloc(100));
  });
  for (int i = 0; i < 300; ++i) touch_and_recover(ptr);
  over = true;
  allocator.join();
  return child_verdict();
}

TEST_F(FaultReportTest, ALiveAllocationIsNeverSaidToHaveNeverBeen) {
  const ChildResult child = run_faulting("read_live_while_memory_is_busy");
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_THAT(child.output, HasSubstr(kReport));
  EXPECT_THAT(child.output, Not(HasSubstr("never allocated")));
}

}  // namespace
}  // namespace openreg::test
