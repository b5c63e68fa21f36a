// Isolated devices whose process dies: what is told, who wakes up, what goes
// on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "support/background.h"
#include "support/process.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using ::testing::HasSubstr;

// Each test is one with a device of its own to lose: device 1.
class LostDeviceTest : public DriverTest {
 protected:
  void SetUp() override {
    if (!is_isolated()) GTEST_SKIP() << "there is no process to lose";
    DriverTest::SetUp();
    expect_leftovers();
    OR_ASSERT_OK(orSetDevice(1));
    OR_ASSERT_OK(launch_empty(nullptr));
    OR_ASSERT_OK(orDeviceSynchronize());
  }
  void TearDown() override {
    if (!is_isolated()) return;
    OR_EXPECT_OK(orSetDevice(1));
    OR_EXPECT_OK(orDeviceReset());
    DriverTest::TearDown();
  }

  static pid_t process(int device) {
    orDeviceProcessInfo info{};
    info.structSize = sizeof info;
    OR_EXPECT_OK(orDeviceGetProcessInfo(&info, device));
    return info.pid;
  }
  static void kill_device() { ASSERT_EQ(::kill(process(1), SIGKILL), 0); }
  static void kill_and_notice() {
    kill_device();
    EXPECT_TRUE(
        eventually([] { return orDeviceSynchronize() == orErrorDeviceLost; }));
  }
};

TEST_F(LostDeviceTest, EveryCallSaysSoWithTheReason) {
  const pid_t pid = process(1);
  Stream stream;
  Event event;
  char* const memory = device_malloc(64);
  const orFunction_t empty = builtin("empty");
  kill_and_notice();
  const std::array<orError_t, 6> codes = {
      orStreamSynchronize(stream),
      orStreamQuery(stream),
      orEventRecord(event, stream),
      orMemset(memory, 1, 64),
      orLaunchKernel(empty, nullptr, 0, stream),
      orDeviceSynchronize()};
  EXPECT_THAT(codes, ::testing::Each(orErrorDeviceLost));
  const std::string message = orGetLastErrorMessage();
  EXPECT_THAT(message, HasSubstr("device 1 is lost"));
  EXPECT_THAT(message, HasSubstr(std::to_string(pid)));
  EXPECT_THAT(message, HasSubstr("signal 9 (SIGKILL)"));
  OR_EXPECT_OK(orFree(memory));
}

TEST_F(LostDeviceTest, NewMemoryIsRefused) {
  kill_and_notice();
  void* memory = nullptr;
  OR_EXPECT_ERROR(orErrorDeviceLost, orMalloc(&memory, 64));
  EXPECT_EQ(memory, nullptr);
}

TEST_F(LostDeviceTest, ThreadsThatWaitWakeUp) {
  Gate gate;
  Stream stream;
  Event event;
  gate.hold(stream);
  gate.await();
  OR_ASSERT_OK(orEventRecord(event, stream));
  orError_t of_stream = orSuccess;
  orError_t of_event = orSuccess;
  orError_t of_copy = orSuccess;
  char* const memory = device_malloc(1 << 20);
  std::vector<char> bytes(1 << 20);
  Background on_stream([&] { of_stream = orStreamSynchronize(stream); });
  Background on_event([&] { of_event = orEventSynchronize(event); });
  Background on_copy([&] {
    of_copy = orMemcpyAsync(bytes.data(), memory, bytes.size(),
                            orMemcpyDeviceToHost, stream);
  });
  on_stream.settle();
  on_event.settle();
  on_copy.settle();
  kill_device();
  on_stream.join();
  on_event.join();
  on_copy.join();
  EXPECT_EQ(of_stream, orErrorDeviceLost);
  EXPECT_EQ(of_event, orErrorDeviceLost);
  EXPECT_EQ(of_copy, orErrorDeviceLost);
}

TEST_F(LostDeviceTest, AnotherDeviceThatWaitsForItGoesOn) {
  Gate gate;
  Stream lost;
  Event event;
  gate.hold(lost);
  gate.await();
  OR_ASSERT_OK(orEventRecord(event, lost));
  const OnDevice zero(0);
  Stream waiting;
  OR_ASSERT_OK(orStreamWaitEvent(waiting, event, 0));
  OR_ASSERT_OK(launch_empty(waiting));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(waiting));
  kill_device();
  OR_EXPECT_OK(orStreamSynchronize(waiting));
}

TEST_F(LostDeviceTest, ACopyToItSaysThatItWasLost) {
  char* const there = device_malloc(64);
  const OnDevice zero(0);
  DeviceBuffer<char> here(64);
  Gate gate;
  Stream stream;
  gate.hold(stream);
  gate.await();
  OR_ASSERT_OK(
      orMemcpyAsync(there, here.get(), 64, orMemcpyDeviceToDevice, stream));
  {
    const OnDevice one(1);
    kill_and_notice();
  }
  gate.open();
  OR_EXPECT_ERROR_SAYS(orErrorLaunchFailure, "device 1 was reset or lost",
                       orStreamSynchronize(stream));
  OR_EXPECT_OK(orDeviceSynchronize());
}

TEST_F(LostDeviceTest, AResetStartsAnotherProcess) {
  const pid_t before = process(1);
  char* const old = device_malloc(64);
  kill_and_notice();
  OR_ASSERT_OK(orDeviceReset());
  DeviceBuffer<char> fresh(64);
  fresh.set(std::vector<char>(64, 7));
  EXPECT_EQ(fresh.values(), std::vector<char>(64, 7));
  EXPECT_NE(process(1), before);
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "before device 1 was reset",
                       orMemset(old, 0, 64));
}

TEST_F(LostDeviceTest, AKernelThatCrashesTakesItsDeviceAlone) {
  TestModule module;
  const CallArgs args{nullptr, nullptr};  // calls address 0
  OR_ASSERT_OK(launch(module["call"], args, nullptr));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const char* const reason = "exited with code";  // the sanitizer reports it
#else
  const char* const reason = "SIGSEGV";
#endif
  OR_EXPECT_ERROR_SAYS(orErrorDeviceLost, reason, orDeviceSynchronize());
  EXPECT_THAT(orGetLastErrorMessage(), HasSubstr("call"));
  const OnDevice zero(0);
  OR_EXPECT_OK(launch_empty(nullptr));
  OR_EXPECT_OK(orDeviceSynchronize());
}

TEST_F(LostDeviceTest, AResetEndsAKernelThatHangs) {
  const orTestingBusyArgs args{UINT64_MAX};
  OR_ASSERT_OK(launch(builtin("busy"), args, nullptr));
  OR_ASSERT_OK(orDeviceReset());
  OR_EXPECT_OK(launch_empty(nullptr));
  OR_EXPECT_OK(orDeviceSynchronize());
}

}  // namespace
}  // namespace openreg::test
