// Events as objects: creation, query, synchronize, time, destruction, errors.
// How events order streams is in event_order_test.cpp.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/background.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using EventTest = DriverTest;

void expect_refused_everywhere(orEvent_t bad) {
  Stream stream;
  Event good;
  float ms = 0;
  OR_EXPECT_OK(orEventRecord(good, stream));
  OR_EXPECT_OK(orEventSynchronize(good));
  const std::vector<std::pair<std::string, std::function<orError_t()>>> calls =
      {{"orEventRecord", [&] { return orEventRecord(bad, stream); }},
       {"orEventQuery", [&] { return orEventQuery(bad); }},
       {"orEventSynchronize", [&] { return orEventSynchronize(bad); }},
       {"orEventElapsedTime",
        [&] { return orEventElapsedTime(&ms, bad, good); }},
       {"orEventElapsedTime",
        [&] { return orEventElapsedTime(&ms, good, bad); }},
       {"orStreamWaitEvent", [&] { return orStreamWaitEvent(stream, bad, 0); }},
       {"orEventDestroy", [&] { return orEventDestroy(bad); }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    OR_EXPECT_ERROR(orErrorInvalidHandle, call());
    EXPECT_EQ(std::string(orGetLastErrorMessage()).rfind(name, 0), 0u)
        << "the message does not begin with the function: "
        << orGetLastErrorMessage();
  }
}

TEST_F(EventTest, CreateGivesALiveEvent) {
  const size_t before = counters().liveEvents;
  orEvent_t event = nullptr;
  OR_ASSERT_OK(orEventCreate(&event));
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(counters().liveEvents, before + 1);
  OR_EXPECT_OK(orEventDestroy(event));
  EXPECT_EQ(counters().liveEvents, before);
}

TEST_F(EventTest, EveryCombinationOfKnownFlagsIsAccepted) {
  for (const unsigned flags :
       {orEventDefault, orEventBlockingSync, orEventDisableTiming,
        orEventBlockingSync | orEventDisableTiming}) {
    Stream stream;
    Event event(flags);
    OR_EXPECT_OK(launch_empty(stream));
    OR_EXPECT_OK(orEventRecord(event, stream));
    OR_EXPECT_OK(orEventSynchronize(event));
    OR_EXPECT_OK(orEventQuery(event));
  }
}

TEST_F(EventTest, BadFlagsAreRefused) {
  const size_t before = counters().liveEvents;
  orEvent_t event = nullptr;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags",
                       orEventCreateWithFlags(&event, 0x8u));
  OR_EXPECT_ERROR(orErrorNotSupported,
                  orEventCreateWithFlags(&event, orEventInterprocess));
  OR_EXPECT_ERROR(orErrorNotSupported,
                  orEventCreateWithFlags(
                      &event, orEventInterprocess | orEventDisableTiming));
  EXPECT_EQ(counters().liveEvents, before);
}

TEST_F(EventTest, NullOutPointersAreRefused) {
  Stream stream;
  Event event;
  OR_EXPECT_OK(orEventRecord(event, stream));
  OR_EXPECT_OK(orEventSynchronize(event));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "event", orEventCreate(nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "event",
                       orEventCreateWithFlags(nullptr, orEventDefault));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "milliseconds",
                       orEventElapsedTime(nullptr, event, event));
}

TEST_F(EventTest, BadHandlesAreRefusedEverywhere) {
  orEvent_t destroyed = nullptr;
  OR_ASSERT_OK(orEventCreate(&destroyed));
  OR_ASSERT_OK(orEventDestroy(destroyed));
  expect_refused_everywhere(destroyed);
  expect_refused_everywhere(nullptr);
  expect_refused_everywhere(garbage_handle<orEvent_t>());
  Stream stream;
  expect_refused_everywhere(
      reinterpret_cast<orEvent_t>(static_cast<orStream_t>(stream)));
}

TEST_F(EventTest, AnEventThatWasNeverRecordedIsDone) {
  Event event;
  OR_EXPECT_OK(orEventQuery(event));
  OR_EXPECT_OK(orEventSynchronize(event));
}

TEST_F(EventTest, QueryIsNotReadyUntilTheWorkBeforeTheRecordIsDone) {
  for (const unsigned flags : {orEventDefault, orEventDisableTiming}) {
    Stream stream;
    Event event(flags);
    Gate gate;
    gate.hold(stream);
    OR_EXPECT_OK(orEventRecord(event, stream));
    OR_EXPECT_ERROR(orErrorNotReady, orEventQuery(event));
    gate.open();
    OR_EXPECT_OK(orEventSynchronize(event));
    OR_EXPECT_OK(orEventQuery(event));
  }
}

TEST_F(EventTest, ARecordOnAnIdleStreamIsDoneAtOnceOrSoon) {
  Stream stream;
  Event untimed(orEventDisableTiming);
  Event timed;
  OR_EXPECT_OK(orEventRecord(untimed, stream));
  OR_EXPECT_OK(orEventQuery(untimed));
  OR_EXPECT_OK(orEventRecord(timed, stream));
  OR_EXPECT_OK(orEventSynchronize(timed));
  OR_EXPECT_OK(orEventQuery(timed));
}

TEST_F(EventTest, QuerySpeaksOfTheLatestRecord) {
  for (const unsigned flags : {orEventDefault, orEventDisableTiming}) {
    Stream stream;
    Event event(flags);
    OR_EXPECT_OK(orEventRecord(event, stream));
    OR_EXPECT_OK(orEventSynchronize(event));
    Gate gate;
    gate.hold(stream);
    OR_EXPECT_OK(orEventRecord(event, stream));
    OR_EXPECT_ERROR(orErrorNotReady, orEventQuery(event));
  }
}

TEST_F(EventTest, ALaterRecordOnAnIdleStreamReplacesAPendingOne) {
  Stream held;
  Stream idle;
  Event event;
  Gate gate;
  gate.hold(held);
  OR_EXPECT_OK(orEventRecord(event, held));
  OR_EXPECT_OK(orEventRecord(event, idle));
  OR_EXPECT_OK(orEventSynchronize(event));
  OR_EXPECT_OK(orEventQuery(event));
}

TEST_F(EventTest, SynchronizeReturnsAfterTheWorkBeforeTheRecord) {
  for (const unsigned flags :
       {orEventDefault, orEventBlockingSync, orEventDisableTiming}) {
    Mark mark;
    Stream stream;
    Event event(flags);
    Gate gate;
    gate.hold(stream);
    OR_EXPECT_OK(mark.set_by(stream));
    OR_EXPECT_OK(orEventRecord(event, stream));
    gate.await();
    Background waiter([&] {
      OR_EXPECT_OK(orEventSynchronize(event));
      EXPECT_TRUE(mark.is_set());
    });
    waiter.settle();
    EXPECT_FALSE(waiter.done());
    gate.open();
    waiter.join();
  }
}

TEST_F(EventTest, SynchronizeLeavesLaterWorkToTheDevice) {
  for (const unsigned flags : {orEventDefault, orEventDisableTiming}) {
    Mark before;
    Mark after;
    Stream stream;
    Event event(flags);
    Gate gate;
    OR_EXPECT_OK(before.set_by(stream));
    OR_EXPECT_OK(orEventRecord(event, stream));
    gate.hold(stream);
    OR_EXPECT_OK(after.set_by(stream));
    OR_EXPECT_OK(orEventSynchronize(event));
    EXPECT_TRUE(before.is_set());
    EXPECT_FALSE(after.is_set());
    OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
    gate.open();
    OR_EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_TRUE(after.is_set());
  }
}

TEST_F(EventTest, SynchronizeIsBoundToTheRecordThatWasTheLatest) {
  for (const unsigned flags : {orEventDefault, orEventDisableTiming}) {
    Stream stream;
    Event event(flags);
    Gate first;
    Gate second;
    first.hold(stream);
    OR_EXPECT_OK(orEventRecord(event, stream));
    first.await();
    {
      Background waiter([&] { OR_EXPECT_OK(orEventSynchronize(event)); });
      waiter.settle();
      second.hold(stream);
      OR_EXPECT_OK(orEventRecord(event, stream));
      first.open();
    }  // returns although the second record has not been reached
    OR_EXPECT_ERROR(orErrorNotReady, orEventQuery(event));
    second.open();
    OR_EXPECT_OK(orEventSynchronize(event));
  }
}

TEST_F(EventTest, RecordsAndWaitsReturnOnAStreamThatMakesLaunchesWait) {
  constexpr size_t kMiB = size_t{1} << 20;
  const std::vector<char> args(kMiB);
  const orFunction_t empty = builtin("empty");
  Stream full;
  Stream other;
  Event event;
  Event other_event(orEventDisableTiming);
  Gate gate;
  gate.hold(full);
  gate.hold(other);
  gate.await(2);
  OR_EXPECT_OK(orEventRecord(other_event, other));
  Background filler([&] {
    for (int i = 0; i < 20; ++i) {
      OR_EXPECT_OK(orLaunchKernel(empty, args.data(), kMiB, full));
    }
  });
  filler.settle();
  EXPECT_FALSE(filler.done());
  Background caller([&] {
    OR_EXPECT_OK(orEventRecord(event, full));
    OR_EXPECT_OK(orStreamWaitEvent(full, other_event, 0));
  });
  caller.settle();
  EXPECT_TRUE(caller.done());
  gate.open();
  caller.join();
  OR_EXPECT_OK(orEventSynchronize(event));
}

TEST_F(EventTest, TheRecordOfADestroyedStreamIsReached) {
  Event event;
  Gate gate;
  orStream_t stream = nullptr;
  OR_ASSERT_OK(orStreamCreate(&stream));
  gate.hold(stream);
  OR_EXPECT_OK(orEventRecord(event, stream));
  OR_EXPECT_OK(orStreamDestroy(stream));
  OR_EXPECT_ERROR(orErrorNotReady, orEventQuery(event));
  gate.open();
  OR_EXPECT_OK(orEventSynchronize(event));
}

TEST_F(EventTest, RecordingOnAnotherDevicesStreamIsRefused) {
  Event here;
  Stream stream_here;
  {
    OnDevice other(1);
    Stream stream_there;
    OR_EXPECT_ERROR(orErrorInvalidDevice, orEventRecord(here, stream_there));
    OR_EXPECT_ERROR(orErrorInvalidDevice, orEventRecord(here, nullptr));
    OR_EXPECT_OK(orEventRecord(here, stream_here));
  }
  OR_EXPECT_OK(orEventRecord(here, nullptr));
  OR_EXPECT_OK(orEventSynchronize(here));
}

TEST_F(EventTest, ElapsedTimeOnOneStreamIsPositive) {
  Stream stream;
  Event start;
  Event end;
  for (int i = 0; i < 100; ++i) {
    float ms = -1;
    OR_EXPECT_OK(orEventRecord(start, stream));
    OR_EXPECT_OK(orEventRecord(end, stream));
    OR_EXPECT_OK(orEventSynchronize(end));
    OR_EXPECT_OK(orEventElapsedTime(&ms, start, end));
    ASSERT_GT(ms, 0.0f);
    OR_EXPECT_OK(orEventElapsedTime(&ms, end, start));
    ASSERT_LT(ms, 0.0f);
    OR_EXPECT_OK(orEventElapsedTime(&ms, start, start));
    ASSERT_EQ(ms, 0.0f);
  }
}

TEST_F(EventTest, ElapsedTimeCoversTheWorkBetweenTheRecords) {
  Stream stream;
  Event start;
  Event end;
  float ms = 0;
  const orTestingBusyArgs five_milliseconds{5'000'000};
  OR_EXPECT_OK(orEventRecord(start, stream));
  OR_EXPECT_OK(launch(builtin("busy"), five_milliseconds, stream));
  OR_EXPECT_OK(orEventRecord(end, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  OR_EXPECT_OK(orEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 4.99f);
  // A new record moves the end.
  OR_EXPECT_OK(launch(builtin("busy"), five_milliseconds, stream));
  OR_EXPECT_OK(orEventRecord(end, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  OR_EXPECT_OK(orEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 9.98f);
}

TEST_F(EventTest, ElapsedTimeNeedsTwoTimedRecordsThatWereReached) {
  Stream stream;
  Event start;
  Event never_recorded;
  Event untimed(orEventDisableTiming);
  float ms = 123;
  OR_EXPECT_OK(orEventRecord(start, stream));
  OR_EXPECT_OK(orEventRecord(untimed, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  OR_EXPECT_ERROR(orErrorInvalidHandle,
                  orEventElapsedTime(&ms, start, never_recorded));
  OR_EXPECT_ERROR(orErrorInvalidHandle,
                  orEventElapsedTime(&ms, never_recorded, start));
  OR_EXPECT_ERROR(orErrorInvalidHandle,
                  orEventElapsedTime(&ms, start, untimed));
  Event end;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orEventRecord(end, stream));
  OR_EXPECT_ERROR(orErrorNotReady, orEventElapsedTime(&ms, start, end));
  OR_EXPECT_ERROR(orErrorNotReady, orEventElapsedTime(&ms, end, start));
  EXPECT_EQ(ms, 123);
  gate.open();
  OR_EXPECT_OK(orEventSynchronize(end));
  OR_EXPECT_OK(orEventElapsedTime(&ms, start, end));
}

TEST_F(EventTest, ElapsedTimeBetweenDevicesIsRefused) {
  Event here;
  OR_EXPECT_OK(orEventRecord(here, nullptr));
  OR_EXPECT_OK(orEventSynchronize(here));
  OnDevice other(1);
  Event there;
  OR_EXPECT_OK(orEventRecord(there, nullptr));
  OR_EXPECT_OK(orEventSynchronize(there));
  float ms = 0;
  OR_EXPECT_ERROR(orErrorInvalidDevice, orEventElapsedTime(&ms, here, there));
}

TEST_F(EventTest, TheRefusalOfOneMoreEventSaysHowManyThereCanBe) {
  std::vector<orEvent_t> events;
  orEvent_t event = nullptr;
  while (orEventCreate(&event) == orSuccess) events.push_back(event);
  OR_EXPECT_ERROR_SAYS(orErrorOutOfMemory,
                       std::to_string(counters().liveEvents),
                       orEventCreate(&event));
  for (const orEvent_t each : events) OR_EXPECT_OK(orEventDestroy(each));
}

}  // namespace
}  // namespace openreg::test
