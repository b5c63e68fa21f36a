// Failures that stay with the device until it is reset: an illegal address and
// a lost device in every mode, and every failure with OPENREG_ERRORS=gpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "support/failing.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using StickyFailureTest = DriverTest;

// Every reporting call gives `code`, more than once; the others work; and after
// a reset the device is as new. Takes the bench with it.
void expect_sticky_until_reset(FailureBench& bench, orError_t code,
                               const char* text) {
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, call] : bench.reporting_calls()) {
      SCOPED_TRACE(name);
      OR_EXPECT_ERROR_SAYS(code, text, call());
      EXPECT_THAT(orGetLastErrorMessage(), HasSubstr(OPENREG_EARLIER_FAILURE));
    }
    for (const auto& [name, call] : bench.silent_calls()) {
      SCOPED_TRACE(name);
      OR_EXPECT_OK(call());
    }
  }
  bench.release();
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_OK(orDeviceSynchronize());
  FailureBench fresh;
  fresh.expect_no_failure();
}

// Launches "fail" on the default stream and waits for it.
void fail_on_default_stream(orError_t code) {
  OR_EXPECT_OK(launch_failing(nullptr, code, "the reason"));
  settle();
}

TEST_F(StickyFailureTest, AnIllegalAddressAndALostDeviceAreStickyInEveryMode) {
  for (const orError_t code : {orErrorIllegalAddress, orErrorDeviceLost}) {
    OnDevice other(1);
    FailureBench bench;
    fail_on_default_stream(code);
    expect_sticky_until_reset(bench, code, "the reason");
  }
}

TEST_F(StickyFailureTest, AKernelThatUsesFreedMemoryIsNamed) {
  OnDevice other(1);
  FailureBench bench;
  void* freed = nullptr;
  OR_ASSERT_OK(orMalloc(&freed, 64));
  OR_ASSERT_OK(orFree(freed));
  const orTestingFillArgs args{freed, 64, 1};
  OR_EXPECT_OK(launch(builtin("fill"), args, nullptr));
  settle();
  expect_sticky_until_reset(bench, orErrorIllegalAddress, "kernel 'fill'");
}

TEST_F(StickyFailureTest, AnInlineIllegalAddressIsReturnedAndStays) {
  for (const bool cheap : {false, true}) {
    if (cheap && is_isolated()) break;  // it is not inline there
    OnDevice other(1);
    FailureBench bench;
    const orTestingFillArgs args{nullptr, 64, 1};
    const orFunction_t fill = builtin("fill");
    OR_EXPECT_ERROR(orErrorIllegalAddress,
                    cheap ? launch_cheap(fill, args, nullptr)
                          : orLaunchKernelSync(fill, &args, sizeof args,
                                               nullptr, nullptr, 0, nullptr));
    EXPECT_THAT(orGetLastErrorMessage(),
                Not(HasSubstr(OPENREG_EARLIER_FAILURE)));
    expect_sticky_until_reset(bench, orErrorIllegalAddress, "kernel 'fill'");
  }
}

TEST_F(StickyFailureTest, OtherDevicesGoOn) {
  FailureBench here;
  OnDevice other(1);
  FailureBench there;
  fail_on_default_stream(orErrorDeviceLost);
  OR_EXPECT_OK(orSetDevice(0));
  here.expect_no_failure();
  OR_EXPECT_OK(orSetDevice(1));
  OR_EXPECT_ERROR(orErrorDeviceLost, orDeviceSynchronize());
  there.release();
  OR_EXPECT_OK(orDeviceReset());
}

// A waiter on another device is released when the device it waits for fails.
TEST_F(StickyFailureTest, AWaitForARecordOnAFailedDeviceEnds) {
  Mark mark;
  Stream here;
  OnDevice other(1);
  orStream_t there = nullptr;
  orEvent_t event = nullptr;
  OR_ASSERT_OK(orStreamCreate(&there));
  OR_ASSERT_OK(orEventCreate(&event));
  Gate gate;
  gate.hold(there);
  OR_EXPECT_OK(launch_failing(there, orErrorIllegalAddress, "the reason"));
  OR_EXPECT_OK(launch_empty(there));
  OR_EXPECT_OK(orEventRecord(event, there));
  OR_EXPECT_OK(orStreamWaitEvent(here, event, 0));
  OR_EXPECT_OK(orSetDevice(0));
  OR_EXPECT_OK(mark.set_by(here));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(here));
  EXPECT_TRUE(mark.is_set());
  OR_EXPECT_OK(orSetDevice(1));
  OR_EXPECT_OK(orDeviceReset());
}

// The work behind a sticky failure, for both modes: `code` decides.
void expect_work_behind_is_dropped(orError_t code) {
  PinnedBuffer<unsigned char> bytes(3);
  for (size_t i = 0; i < 3; ++i) bytes[i] = 0;
  std::atomic<bool> called = false;
  orStream_t failing = nullptr;
  OR_EXPECT_OK(orStreamCreateWithFlags(&failing, orStreamNonBlocking));
  Gate gate;
  gate.hold(failing);
  OR_EXPECT_OK(orMemsetAsync(bytes.get(), 1, 1, failing));
  OR_EXPECT_OK(launch_failing(failing, code, "the reason"));
  OR_EXPECT_OK(orMemsetAsync(bytes.get() + 1, 1, 1, failing));
  const orTestingFillArgs fill{bytes.get() + 2, 1, 1};
  OR_EXPECT_OK(launch(builtin("fill"), fill, failing));
  OR_EXPECT_OK(orLaunchHostFunc(
      failing,
      [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); },
      &called));
  gate.open();
  OR_EXPECT_ERROR(code, orStreamSynchronize(failing));
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[1], 0);
  EXPECT_EQ(bytes[2], 0);
  EXPECT_FALSE(called);
  OR_EXPECT_OK(orDeviceReset());
  EXPECT_FALSE(called);
}

TEST_F(StickyFailureTest, WorkBehindAnIllegalAddressIsDropped) {
  OnDevice other(1);
  expect_work_behind_is_dropped(orErrorIllegalAddress);
}

// From here on: children with OPENREG_ERRORS=gpu, where every failure stays.
void expect_gpu_child_passes(const std::string& name) {
  expect_child_passes(name, {{"OPENREG_ERRORS", "gpu"}});
}

OPENREG_CHILD(gpu_every_failure_is_sticky) {
  orDeviceProp properties;
  OR_EXPECT_OK(orGetDeviceProperties(&properties, 0));
  CHILD_CHECK(properties.failuresStay == 1);
  for (const orError_t code :
       {orErrorLaunchFailure, orErrorOutOfMemory, orErrorInternal,
        orErrorIllegalAddress, orErrorAssert}) {
    FailureBench bench;
    fail_on_default_stream(code);
    expect_sticky_until_reset(bench, code, "the reason");
  }
  return child_verdict();
}

TEST_F(StickyFailureTest, InGpuModeEveryFailureIsSticky) {
  expect_gpu_child_passes("gpu_every_failure_is_sticky");
}

OPENREG_CHILD(gpu_work_behind_is_dropped) {
  expect_work_behind_is_dropped(orErrorLaunchFailure);
  return child_verdict();
}

TEST_F(StickyFailureTest, InGpuModeWorkBehindAFailureIsDropped) {
  expect_gpu_child_passes("gpu_work_behind_is_dropped");
}

OPENREG_CHILD(gpu_gates_are_not_waited_for) {
  orStream_t failing = nullptr;
  orStream_t running = nullptr;
  orStream_t queued = nullptr;
  orEvent_t event = nullptr;
  OR_EXPECT_OK(orStreamCreateWithFlags(&failing, orStreamNonBlocking));
  OR_EXPECT_OK(orStreamCreateWithFlags(&running, orStreamNonBlocking));
  OR_EXPECT_OK(orStreamCreateWithFlags(&queued, orStreamNonBlocking));
  OR_EXPECT_OK(orEventCreate(&event));
  Gate gate;
  gate.hold(running);
  OR_EXPECT_OK(orEventRecord(event, running));
  OR_EXPECT_OK(orStreamWaitEvent(queued, event, 0));
  gate.hold(queued);
  gate.await();
  OR_EXPECT_OK(launch_failing(failing, orErrorLaunchFailure, "the reason"));
  // The gate stays closed: these return because the failure has dropped it.
  OR_EXPECT_ERROR(orErrorLaunchFailure, orStreamSynchronize(failing));
  OR_EXPECT_ERROR(orErrorLaunchFailure, orStreamSynchronize(running));
  OR_EXPECT_ERROR(orErrorLaunchFailure, orStreamSynchronize(queued));
  OR_EXPECT_ERROR(orErrorLaunchFailure, orEventSynchronize(event));
  OR_EXPECT_ERROR(orErrorLaunchFailure, orDeviceSynchronize());
  settle();
  OR_EXPECT_OK(orDeviceReset());
  return child_verdict();
}

TEST_F(StickyFailureTest, InGpuModeGatesAreNotWaitedForAfterAFailure) {
  expect_gpu_child_passes("gpu_gates_are_not_waited_for");
}

OPENREG_CHILD(gpu_cheap_failure_is_asynchronous) {
  const orTestingFailArgs args{orErrorLaunchFailure, "the reason"};
  OR_EXPECT_OK(launch_cheap(builtin("fail"), args, nullptr));
  if (!is_isolated()) {  // there it may not have got that far
    OR_EXPECT_ERROR_SAYS(orErrorLaunchFailure, "kernel 'fail'",
                         orStreamQuery(nullptr));
  }
  OR_EXPECT_ERROR_SAYS(orErrorLaunchFailure, "kernel 'fail'",
                       orStreamSynchronize(nullptr));
  OR_EXPECT_OK(orDeviceReset());
  return child_verdict();
}

TEST_F(StickyFailureTest, InGpuModeACheapLaunchNeverReturnsItsOwnFailure) {
  expect_gpu_child_passes("gpu_cheap_failure_is_asynchronous");
}

OPENREG_CHILD(gpu_synchronous_failure_is_returned) {
  const orTestingFailArgs args{orErrorNotSupported, "the reason"};
  OR_EXPECT_ERROR_SAYS(orErrorNotSupported, "the reason",
                       orLaunchKernelSync(builtin("fail"), &args, sizeof args,
                                          nullptr, nullptr, 0, nullptr));
  EXPECT_THAT(orGetLastErrorMessage(), Not(HasSubstr(OPENREG_EARLIER_FAILURE)));
  OR_EXPECT_ERROR(orErrorNotSupported, orDeviceSynchronize());
  OR_EXPECT_OK(orDeviceReset());
  return child_verdict();
}

TEST_F(StickyFailureTest, InGpuModeASynchronousLaunchReturnsItsFailure) {
  expect_gpu_child_passes("gpu_synchronous_failure_is_returned");
}

OPENREG_CHILD(gpu_other_devices_go_on) {
  fail_on_default_stream(orErrorLaunchFailure);
  {
    OnDevice other(1);
    FailureBench bench;
    bench.expect_no_failure();
  }
  OR_EXPECT_ERROR(orErrorLaunchFailure, orDeviceSynchronize());
  OR_EXPECT_OK(orDeviceReset());
  return child_verdict();
}

TEST_F(StickyFailureTest, InGpuModeOtherDevicesGoOn) {
  expect_child_passes("gpu_other_devices_go_on",
                      {{"OPENREG_ERRORS", "gpu"}, {"OPENREG_DEVICES", "2"}});
}

}  // namespace
}  // namespace openreg::test
