// OPENREG_LAUNCH_BLOCKING=1: a launch returns when its kernel has run, and says
// itself how it ended. The variable is read once, so all of this is children.
#include <gtest/gtest.h>

#include <string>

#include "support/background.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using LaunchBlockingTest = DriverTest;

void expect_blocking_child_passes(const std::string& name) {
  expect_child_passes(name, {{"OPENREG_LAUNCH_BLOCKING", "1"}});
}

OPENREG_CHILD(blocking_launch_has_run) {
  Mark mark;
  Mark cheap_mark;
  Stream stream;
  OR_EXPECT_OK(mark.set_by(stream));
  CHILD_CHECK(mark.is_set());
  OR_EXPECT_OK(orStreamQuery(stream));
  OR_EXPECT_OK(cheap_mark.set_cheaply_by(stream));
  CHILD_CHECK(cheap_mark.is_set());
  Mark default_mark;
  OR_EXPECT_OK(default_mark.set_by(nullptr));
  CHILD_CHECK(default_mark.is_set());
  return child_verdict();
}

TEST_F(LaunchBlockingTest, ALaunchReturnsWhenItsKernelHasRun) {
  expect_blocking_child_passes("blocking_launch_has_run");
}

OPENREG_CHILD(blocking_launch_returns_its_failure) {
  Stream stream;
  for (int i = 0; i < 2; ++i) {
    OR_EXPECT_ERROR_SAYS(
        orErrorOutOfMemory, "the reason",
        launch_failing(stream, orErrorOutOfMemory, "the reason"));
    CHILD_CHECK(std::string(orGetLastErrorMessage()).find("kernel 'fail'") !=
                std::string::npos);
    OR_EXPECT_OK(orStreamSynchronize(stream));
    OR_EXPECT_OK(orDeviceSynchronize());
  }
  return child_verdict();
}

TEST_F(LaunchBlockingTest, ALaunchReturnsItsOwnFailureAndNothingElseDoes) {
  expect_blocking_child_passes("blocking_launch_returns_its_failure");
}

OPENREG_CHILD(blocking_launch_drops_the_reply) {
  TestModule module;
  Stream stream;
  const ReplyArgs args{64, 'x', 0};
  OR_EXPECT_OK(launch(module["reply"], args, stream));
  OR_EXPECT_OK(launch_cheap(module["reply"], args, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  return child_verdict();
}

TEST_F(LaunchBlockingTest, ALaunchDropsTheReply) {
  expect_blocking_child_passes("blocking_launch_drops_the_reply");
}

OPENREG_CHILD(blocking_gpu_failure_is_sticky) {
  launch_failing(nullptr, orErrorLaunchFailure, "the reason");
  OR_EXPECT_ERROR(orErrorLaunchFailure, orDeviceSynchronize());
  OR_EXPECT_ERROR(orErrorLaunchFailure, launch_empty(nullptr));
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_OK(launch_empty(nullptr));
  return child_verdict();
}

TEST_F(LaunchBlockingTest, InGpuModeAFailureIsStickyAllTheSame) {
  expect_child_passes(
      "blocking_gpu_failure_is_sticky",
      {{"OPENREG_LAUNCH_BLOCKING", "1"}, {"OPENREG_ERRORS", "gpu"}});
}

OPENREG_CHILD(blocking_launch_waits_for_its_stream) {
  Mark mark;
  Mark other_mark;
  Stream stream;
  Stream other;
  Gate gate;
  Background holder([&] { gate.hold(stream); });
  gate.await();
  Background launcher([&] { OR_EXPECT_OK(mark.set_by(stream)); });
  launcher.settle();
  EXPECT_FALSE(launcher.done());
  EXPECT_FALSE(mark.is_set());
  // Another stream is no part of this.
  OR_EXPECT_OK(other_mark.set_by(other));
  EXPECT_TRUE(other_mark.is_set());
  gate.open();
  launcher.join();
  EXPECT_TRUE(mark.is_set());
  return child_verdict();
}

TEST_F(LaunchBlockingTest, ALaunchWaitsForItsStreamOnly) {
  expect_blocking_child_passes("blocking_launch_waits_for_its_stream");
}

OPENREG_CHILD(blocking_launch_waits_for_an_event) {
  Mark mark;
  Stream producer;
  Stream consumer;
  Event event;
  Gate gate;
  Background holder([&] { gate.hold(producer); });
  gate.await();
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  Background launcher([&] { OR_EXPECT_OK(mark.set_by(consumer)); });
  launcher.settle();
  EXPECT_FALSE(launcher.done());
  gate.open();
  launcher.join();
  EXPECT_TRUE(mark.is_set());
  return child_verdict();
}

TEST_F(LaunchBlockingTest, ALaunchWaitsForTheEventsOfItsStream) {
  expect_blocking_child_passes("blocking_launch_waits_for_an_event");
}

OPENREG_CHILD(not_blocking) {
  Mark mark;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(mark.set_by(stream));
  CHILD_CHECK(!mark.is_set());
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  CHILD_CHECK(mark.is_set());
  return child_verdict();
}

TEST_F(LaunchBlockingTest, ZeroAndEmptyMeanAsynchronous) {
  expect_child_passes("not_blocking", {{"OPENREG_LAUNCH_BLOCKING", "0"}});
  expect_child_passes("not_blocking", {{"OPENREG_LAUNCH_BLOCKING", ""}});
}

}  // namespace
}  // namespace openreg::test
