// Events between streams: who waits for which record, and for how long.
#include <gtest/gtest.h>

#include <vector>

#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using EventOrderTest = DriverTest;
using Values = std::vector<uint32_t>;

// Each test of this fixture runs with and without timestamps: an event without
// them takes another way through the driver.
class EventOrderBothWaysTest : public DriverTest,
                               public ::testing::WithParamInterface<unsigned> {
};
INSTANTIATE_TEST_SUITE_P(Flags, EventOrderBothWaysTest,
                         ::testing::Values(orEventDefault,
                                           orEventDisableTiming),
                         [](const auto& param_info) {
                           return param_info.param == orEventDefault
                                      ? "Timed"
                                      : "Untimed";
                         });

TEST_P(EventOrderBothWaysTest, AStreamWaitsForAnotherStreamsRecord) {
  DeviceLog log(8);
  Mark mark;
  Stream producer;
  Stream consumer;
  Event event(GetParam());
  Gate gate;
  gate.hold(producer);
  log.append(1, producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  log.append(2, consumer);
  OR_EXPECT_OK(mark.set_by(consumer));
  gate.await();
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(consumer));
  EXPECT_FALSE(mark.is_set());
  gate.open();
  EXPECT_EQ(log.entries(), (Values{1, 2}));
}

TEST_P(EventOrderBothWaysTest, OnlyTheWorkBeforeTheRecordIsWaitedFor) {
  Mark before;
  Mark after;
  Stream producer;
  Stream consumer;
  Event event(GetParam());
  Gate gate;
  OR_EXPECT_OK(before.set_by(producer));
  OR_EXPECT_OK(orEventRecord(event, producer));
  gate.hold(producer);
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(after.set_by(consumer));
  OR_EXPECT_OK(orStreamSynchronize(consumer));
  EXPECT_TRUE(before.is_set());
  EXPECT_TRUE(after.is_set());
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(producer));
}

TEST_P(EventOrderBothWaysTest, WorkSubmittedBeforeTheWaitGoesOn) {
  Mark mark;
  Stream producer;
  Stream consumer;
  Event before_wait(GetParam());
  Event event(GetParam());
  Gate gate;
  gate.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(mark.set_by(consumer));
  OR_EXPECT_OK(orEventRecord(before_wait, consumer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(launch_empty(consumer));
  OR_EXPECT_OK(orEventSynchronize(before_wait));
  EXPECT_TRUE(mark.is_set());
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(consumer));
}

TEST_P(EventOrderBothWaysTest, AWaitIsBoundToTheEarlierRecord) {
  Mark mark;
  Stream producer;
  Stream consumer;
  Event event(GetParam());
  Gate first;
  Gate second;
  first.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(mark.set_by(consumer));
  second.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(consumer));
  first.open();
  OR_EXPECT_OK(orStreamSynchronize(consumer));
  EXPECT_TRUE(mark.is_set());
  OR_EXPECT_ERROR(orErrorNotReady, orEventQuery(event));
  second.open();
}

TEST_P(EventOrderBothWaysTest, AnEarlierRecordDoesNotEndALaterWait) {
  Mark mark;
  Stream producer;
  Stream consumer;
  Event event(GetParam());
  Gate first;
  Gate second;
  first.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  second.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(mark.set_by(consumer));
  first.open();
  second.await();  // the first record has been reached
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(consumer));
  EXPECT_FALSE(mark.is_set());
  second.open();
  OR_EXPECT_OK(orStreamSynchronize(consumer));
  EXPECT_TRUE(mark.is_set());
}

TEST_P(EventOrderBothWaysTest, AWaitKeepsItsRecordWhenAnotherStreamRecords) {
  Stream first_producer;
  Stream second_producer;
  Stream consumer;
  Event event(GetParam());
  Gate gate;
  gate.hold(first_producer);
  OR_EXPECT_OK(orEventRecord(event, first_producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(launch_empty(consumer));
  OR_EXPECT_OK(orEventRecord(event, second_producer));
  OR_EXPECT_OK(orEventSynchronize(event));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(consumer));
}

TEST_P(EventOrderBothWaysTest, DestroyingAPendingEventLeavesItsWaits) {
  DeviceLog log(8);
  Stream producer;
  Stream consumer;
  Event event(GetParam());
  Gate gate;
  gate.hold(producer);
  log.append(1, producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(orEventDestroy(event.release()));
  log.append(2, consumer);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(consumer));
  gate.open();
  EXPECT_EQ(log.entries(), (Values{1, 2}));
}

TEST_P(EventOrderBothWaysTest, ACheapLaunchBehindAWaitDoesNotOvertakeIt) {
  Mark mark;
  Stream producer;
  Stream consumer;
  Event event(GetParam());
  Gate gate;
  gate.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(mark.set_cheaply_by(consumer));
  gate.await();
  EXPECT_FALSE(mark.is_set());
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(consumer));
  EXPECT_TRUE(mark.is_set());
}

TEST_P(EventOrderBothWaysTest, ARecordBehindAWaitIsReachedAfterIt) {
  Stream producer;
  Stream consumer;
  Event first(GetParam());
  Event second(GetParam());
  Gate gate;
  gate.hold(producer);
  OR_EXPECT_OK(orEventRecord(first, producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, first, 0));
  OR_EXPECT_OK(orEventRecord(second, consumer));
  OR_EXPECT_ERROR(orErrorNotReady, orEventQuery(second));
  gate.open();
  OR_EXPECT_OK(orEventSynchronize(second));
  OR_EXPECT_OK(orEventQuery(first));
}

TEST_P(EventOrderBothWaysTest, AStreamMayWaitForAnotherDevicesRecord) {
  Mark mark;
  Stream consumer;
  OnDevice other(1);
  Stream producer;
  Event event(GetParam());
  Gate gate;
  gate.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(orSetDevice(0));
  OR_EXPECT_OK(mark.set_by(consumer));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(consumer));
  EXPECT_FALSE(mark.is_set());
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(consumer));
  EXPECT_TRUE(mark.is_set());
}

TEST_P(EventOrderBothWaysTest, AChainThroughManyStreamsKeepsItsOrder) {
  constexpr uint32_t kRounds = 50;
  constexpr uint32_t kStreams = 4;
  DeviceLog log(kRounds * kStreams);
  Stream streams[kStreams];
  Event event(GetParam());
  Gate gate;
  gate.hold(streams[0]);
  Values expected;
  for (uint32_t i = 0; i < kRounds * kStreams; ++i) {
    const orStream_t stream = streams[i % kStreams];
    if (i > 0) OR_EXPECT_OK(orStreamWaitEvent(stream, event, 0));
    log.append(i, stream);
    OR_EXPECT_OK(orEventRecord(event, stream));
    expected.push_back(i);
  }
  gate.open();
  EXPECT_EQ(log.entries(), expected);
}

TEST_F(EventOrderTest, AnEventThatWasNeverRecordedIsNoObstacle) {
  Mark mark;
  Stream stream;
  Event event;
  OR_EXPECT_OK(orStreamWaitEvent(stream, event, 0));
  OR_EXPECT_OK(mark.set_by(stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(EventOrderTest, ARecordThatComesAfterTheWaitIsNoObstacle) {
  Stream producer;
  Stream consumer;
  Event event;
  Gate gate;
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  gate.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(launch_empty(consumer));
  OR_EXPECT_OK(orStreamSynchronize(consumer));
}

TEST_F(EventOrderTest, WaitingForTheStreamsOwnRecordIsFine) {
  Stream stream;
  Event event;
  OR_EXPECT_OK(launch_empty(stream));
  OR_EXPECT_OK(orEventRecord(event, stream));
  OR_EXPECT_OK(orStreamWaitEvent(stream, event, 0));
  OR_EXPECT_OK(launch_empty(stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(EventOrderTest, WaitFlagsMustBeZero) {
  Stream stream;
  Event event;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags",
                       orStreamWaitEvent(stream, event, 1));
}

TEST_F(EventOrderTest, TheDefaultStreamWaitsForARecord) {
  Stream producer;
  Event event;
  Gate gate;
  gate.hold(producer);
  OR_EXPECT_OK(orEventRecord(event, producer));
  OR_EXPECT_OK(orStreamWaitEvent(nullptr, event, 0));
  OR_EXPECT_OK(launch_empty(nullptr));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(nullptr));
}

}  // namespace
}  // namespace openreg::test
