// Streams as objects: creation, attributes, bad handles, query, synchronize and
// destruction. How streams order each other is in stream_order_test.cpp.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/background.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using StreamTest = DriverTest;

int priority_of(orStream_t stream) {
  int priority = 1;
  OR_EXPECT_OK(orStreamGetPriority(stream, &priority));
  return priority;
}

unsigned flags_of(orStream_t stream) {
  unsigned flags = ~0u;
  OR_EXPECT_OK(orStreamGetFlags(stream, &flags));
  return flags;
}

int device_of(orStream_t stream) {
  int device = -1;
  OR_EXPECT_OK(orStreamGetDevice(stream, &device));
  return device;
}

// Every function that takes a stream, called with `stream`.
std::vector<std::pair<std::string, std::function<orError_t(orStream_t)>>>
functions_of_a_stream(orEvent_t event, void* block) {
  static int device = 0;
  static int priority = 0;
  static unsigned flags = 0;
  return {
      {"orStreamDestroy", [](orStream_t s) { return orStreamDestroy(s); }},
      {"orStreamQuery", [](orStream_t s) { return orStreamQuery(s); }},
      {"orStreamSynchronize",
       [](orStream_t s) { return orStreamSynchronize(s); }},
      {"orStreamWaitEvent",
       [=](orStream_t s) { return orStreamWaitEvent(s, event, 0); }},
      {"orLaunchHostFunc",
       [](orStream_t s) { return orLaunchHostFunc(s, [](void*) {}, nullptr); }},
      {"orStreamGetDevice",
       [](orStream_t s) { return orStreamGetDevice(s, &device); }},
      {"orStreamGetPriority",
       [](orStream_t s) { return orStreamGetPriority(s, &priority); }},
      {"orStreamGetFlags",
       [](orStream_t s) { return orStreamGetFlags(s, &flags); }},
      {"orEventRecord", [=](orStream_t s) { return orEventRecord(event, s); }},
      {"orMemsetAsync",
       [=](orStream_t s) { return orMemsetAsync(block, 0, 1, s); }},
      {"orMemcpyAsync",
       [=](orStream_t s) {
         char byte = 0;
         return orMemcpyAsync(block, &byte, 1, orMemcpyHostToDevice, s);
       }},
      {"orLaunchKernel", [](orStream_t s) { return launch_empty(s); }},
      {"orLaunchKernelSync",
       [](orStream_t s) {
         return orLaunchKernelSync(builtin("empty"), nullptr, 0, s, nullptr, 0,
                                   nullptr);
       }},
  };
}

void expect_refused_everywhere(orStream_t stream) {
  Event event;
  DeviceBuffer<char> block(16);
  for (const auto& [name, call] : functions_of_a_stream(event, block.get())) {
    SCOPED_TRACE(name);
    OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "stream", call(stream));
    EXPECT_EQ(std::string(orGetLastErrorMessage()).rfind(name, 0), 0u)
        << "the message does not begin with the function: "
        << orGetLastErrorMessage();
  }
  OR_EXPECT_OK(orEventQuery(event));
}

TEST_F(StreamTest, CreateGivesALiveIdleStream) {
  orStream_t stream = nullptr;
  const size_t before = counters().liveStreams;
  OR_ASSERT_OK(orStreamCreate(&stream));
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(counters().liveStreams, before + 1);
  OR_EXPECT_OK(orStreamQuery(stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(flags_of(stream), orStreamDefault);
  EXPECT_EQ(priority_of(stream), 0);
  OR_EXPECT_OK(orStreamDestroy(stream));
  EXPECT_EQ(counters().liveStreams, before);
}

TEST_F(StreamTest, TwoStreamsAreDifferent) {
  Stream first;
  Stream second;
  EXPECT_NE(static_cast<orStream_t>(first), static_cast<orStream_t>(second));
}

TEST_F(StreamTest, FlagsAreKept) {
  Stream blocking(orStreamDefault);
  Stream independent(orStreamNonBlocking);
  EXPECT_EQ(flags_of(blocking), orStreamDefault);
  EXPECT_EQ(flags_of(independent), orStreamNonBlocking);
  EXPECT_EQ(flags_of(nullptr), orStreamDefault);
}

TEST_F(StreamTest, UnknownFlagsAreRefused) {
  const size_t before = counters().liveStreams;
  orStream_t stream = nullptr;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags",
                       orStreamCreateWithFlags(&stream, 0x2u));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags",
                       orStreamCreateWithPriority(&stream, 0x80000001u, 0));
  EXPECT_EQ(counters().liveStreams, before);
}

TEST_F(StreamTest, PrioritiesWithinTheRangeAreKept) {
  int least = -1;
  int greatest = 1;
  OR_ASSERT_OK(orDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(least, 0);
  ASSERT_LT(greatest, least);
  for (int priority = greatest; priority <= least; ++priority) {
    EXPECT_EQ(priority_of(Stream(orStreamNonBlocking, priority)), priority);
  }
}

TEST_F(StreamTest, PrioritiesBeyondTheRangeAreClamped) {
  int least = 0;
  int greatest = 0;
  OR_ASSERT_OK(orDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(priority_of(Stream(orStreamNonBlocking, least + 1)), least);
  EXPECT_EQ(priority_of(Stream(orStreamNonBlocking, 1 << 30)), least);
  EXPECT_EQ(priority_of(Stream(orStreamNonBlocking, greatest - 1)), greatest);
  EXPECT_EQ(priority_of(Stream(orStreamNonBlocking, -(1 << 30))), greatest);
}

TEST_F(StreamTest, AStreamBelongsToTheDeviceThatWasCurrent) {
  Stream here;
  {
    OnDevice other(1);
    Stream there;
    EXPECT_EQ(device_of(here), 0);
    EXPECT_EQ(device_of(there), 1);
    EXPECT_EQ(device_of(nullptr), 1);
  }
  EXPECT_EQ(device_of(nullptr), 0);
}

TEST_F(StreamTest, AStreamIsAcceptedWhicheverDeviceIsCurrent) {
  Mark mark;
  Stream stream;
  OR_EXPECT_OK(mark.set_by(stream));
  OnDevice other(1);
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(StreamTest, NullOutPointersAreRefused) {
  Stream stream;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "stream", orStreamCreate(nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "stream",
                       orStreamCreateWithFlags(nullptr, orStreamDefault));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "stream",
                       orStreamCreateWithPriority(nullptr, orStreamDefault, 0));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "device",
                       orStreamGetDevice(stream, nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "priority",
                       orStreamGetPriority(stream, nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags",
                       orStreamGetFlags(stream, nullptr));
}

TEST_F(StreamTest, ADestroyedStreamIsRefusedEverywhere) {
  orStream_t stream = nullptr;
  OR_ASSERT_OK(orStreamCreate(&stream));
  OR_ASSERT_OK(orStreamDestroy(stream));
  expect_refused_everywhere(stream);
}

TEST_F(StreamTest, ADestroyedStreamStaysRefusedWhenItsSlotIsUsedAgain) {
  orStream_t old_stream = nullptr;
  OR_ASSERT_OK(orStreamCreate(&old_stream));
  OR_ASSERT_OK(orStreamDestroy(old_stream));
  for (int i = 0; i < 100; ++i) {
    Stream stream;
    ASSERT_NE(static_cast<orStream_t>(stream), old_stream);
    OR_EXPECT_ERROR(orErrorInvalidHandle, orStreamQuery(old_stream));
  }
}

TEST_F(StreamTest, AHandleThatWasNeverMadeIsRefusedEverywhere) {
  expect_refused_everywhere(garbage_handle<orStream_t>());
  int local = 0;
  expect_refused_everywhere(reinterpret_cast<orStream_t>(&local));
}

TEST_F(StreamTest, AHandleWithAnyOtherBitIsRefused) {
  Stream stream;
  const auto number =
      reinterpret_cast<uintptr_t>(static_cast<orStream_t>(stream));
  for (int bit = 0; bit < 64; ++bit) {
    SCOPED_TRACE(bit);
    const auto forged =
        reinterpret_cast<orStream_t>(number ^ (uintptr_t{1} << bit));
    OR_EXPECT_ERROR(orErrorInvalidHandle, orStreamQuery(forged));
    OR_EXPECT_ERROR(orErrorInvalidHandle, launch_empty(forged));
    OR_EXPECT_ERROR(orErrorInvalidHandle, orStreamDestroy(forged));
  }
  OR_EXPECT_OK(orStreamQuery(stream));
}

TEST_F(StreamTest, AnEventIsNoStream) {
  Event event;
  expect_refused_everywhere(
      reinterpret_cast<orStream_t>(static_cast<orEvent_t>(event)));
}

TEST_F(StreamTest, TheDefaultStreamCannotBeDestroyed) {
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "stream", orStreamDestroy(nullptr));
  OR_EXPECT_OK(orStreamQuery(nullptr));
}

TEST_F(StreamTest, QueryIsNotReadyWhileWorkRuns) {
  Stream stream;
  Gate gate;
  gate.hold(stream);
  gate.await();
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  OR_EXPECT_OK(orStreamQuery(stream));
}

TEST_F(StreamTest, QueryIsNotReadyWhileWorkIsOnlyQueued) {
  Stream held;
  Stream waiting;
  Event event;
  Gate gate;
  gate.hold(held);
  OR_EXPECT_OK(orEventRecord(event, held));
  OR_EXPECT_OK(orStreamWaitEvent(waiting, event, 0));
  OR_EXPECT_OK(launch_empty(waiting));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(waiting));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(waiting));
  OR_EXPECT_OK(orStreamQuery(waiting));
}

TEST_F(StreamTest, SynchronizeReturnsAfterTheWork) {
  Mark mark;
  Stream stream;
  Gate gate;
  std::atomic<bool> opened = false;
  gate.hold(stream);
  OR_EXPECT_OK(mark.set_by(stream));
  std::thread opener([&] {
    gate.await();
    opened = true;
    gate.open();
  });
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(opened);
  EXPECT_TRUE(mark.is_set());
  opener.join();
}

// How often the calling thread has gone to sleep.
long sleeps_so_far() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

TEST_F(StreamTest, SynchronizeSleepsUntilTheLastCommandAndNotUntilTheNext) {
  constexpr int kCommands = 200;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  gate.await();
  for (int i = 0; i < kCommands; ++i) {
    OR_EXPECT_OK(launch(builtin("busy"), orTestingBusyArgs{100'000}, stream));
  }
  long sleeps = 0;
  Background waiter([&] {
    const long before = sleeps_so_far();
    OR_EXPECT_OK(orStreamSynchronize(stream));
    sleeps = sleeps_so_far() - before;
  });
  waiter.settle();
  gate.open();
  waiter.join();
  EXPECT_LT(sleeps, kCommands / 4);
}

TEST_F(StreamTest, ManyThreadsSynchronizeOneStream) {
  Mark mark;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(mark.set_by(stream));
  std::atomic<int> started = 0;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.emplace_back([&] {
      ++started;
      OR_EXPECT_OK(orStreamSynchronize(stream));
      EXPECT_TRUE(mark.is_set());
    });
  }
  EXPECT_TRUE(eventually([&] { return started == 8; }));
  gate.open();
  for (std::thread& waiter : waiters) waiter.join();
}

TEST_F(StreamTest, SynchronizeOfAnIdleStreamReturnsWhileAnotherIsHeld) {
  Stream held;
  Stream idle;
  Gate gate;
  gate.hold(held);
  OR_EXPECT_OK(orStreamSynchronize(idle));
  OR_EXPECT_OK(orStreamQuery(idle));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(held));
}

TEST_F(StreamTest, DeviceSynchronizeWaitsForSideStreams) {
  Mark first_mark;
  Mark second_mark;
  Stream first;
  Stream second(orStreamDefault);
  Gate gate;
  gate.hold(first);
  gate.hold(second);
  OR_EXPECT_OK(first_mark.set_by(first));
  OR_EXPECT_OK(second_mark.set_by(second));
  std::thread opener([&] {
    gate.await(2);
    gate.open();
  });
  OR_EXPECT_OK(orDeviceSynchronize());
  EXPECT_TRUE(first_mark.is_set());
  EXPECT_TRUE(second_mark.is_set());
  opener.join();
}

TEST_F(StreamTest, DeviceSynchronizeLeavesOtherDevicesAlone) {
  OnDevice other(1);
  Stream there;
  Gate gate;
  gate.hold(there);
  {
    OnDevice here(0);
    OR_EXPECT_OK(orDeviceSynchronize());
  }
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(there));
}

TEST_F(StreamTest, DestroyLetsQueuedWorkFinish) {
  DeviceLog log(16);
  Gate gate;
  orStream_t stream = nullptr;
  OR_ASSERT_OK(orStreamCreateWithFlags(&stream, orStreamNonBlocking));
  gate.hold(stream);
  log.append(1, stream);
  log.append(2, stream);
  OR_EXPECT_OK(orStreamDestroy(stream));
  OR_EXPECT_ERROR(orErrorInvalidHandle, orStreamQuery(stream));
  gate.open();
  EXPECT_EQ(log.entries(), (std::vector<uint32_t>{1, 2}));
}

// Children, because streams of earlier tests may still be ending.
OPENREG_CHILD(stream_worker_lives_as_long_as_its_stream) {
  CHILD_CHECK(counters().workerThreads == 0);
  {
    Stream stream;
    CHILD_CHECK(counters().workerThreads == 0);
    Gate gate;
    gate.hold(stream);
    gate.await();
    CHILD_CHECK(counters().workerThreads == 1);
  }
  CHILD_CHECK(eventually([] { return counters().workerThreads == 0; }));
  return child_verdict();
}

TEST_F(StreamTest, TheWorkerStartsWithTheFirstQueuedWorkAndEndsWithTheStream) {
  expect_child_passes("stream_worker_lives_as_long_as_its_stream", {});
}

OPENREG_CHILD(stream_without_worker) {
  Stream stream;
  OR_EXPECT_OK(launch_cheap(builtin("empty"), nullptr, 0, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  CHILD_CHECK(counters().workerThreads == 0);
  return child_verdict();
}

TEST_F(StreamTest, ACheapLaunchOnAnIdleStreamStartsNoWorker) {
  expect_child_passes("stream_without_worker", {});
}

}  // namespace
}  // namespace openreg::test
