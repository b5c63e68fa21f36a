// orDeviceReset: what it drops, what it refuses afterwards, what it leaves
// alone. Peer access is in peer_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>
#include <vector>

#include "support/background.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using ResetTest = DriverTest;

TEST_F(ResetTest, StreamsFromBeforeAreRefused) {
  Stream owner;
  const orStream_t stream = owner.release();
  const PinnedBuffer<char> pinned(1);
  OR_ASSERT_OK(orDeviceReset());
  const DeviceBuffer<char> device(1);
  int value = 0;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset", orStreamQuery(stream));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orStreamSynchronize(stream));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orStreamGetPriority(stream, &value));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset", launch_empty(stream));
  OR_EXPECT_ERROR_SAYS(
      orErrorInvalidHandle, "reset",
      orMemcpyAsync(device.get(), pinned.get(), 1, orMemcpyDefault, stream));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orMemsetAsync(device.get(), 0, 1, stream));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset", orStreamDestroy(stream));
}

TEST_F(ResetTest, EventsFromBeforeAreRefused) {
  Event owner;
  const orEvent_t event = owner.release();
  OR_ASSERT_OK(orEventRecord(event, nullptr));
  OR_ASSERT_OK(orDeviceReset());
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset", orEventQuery(event));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orEventSynchronize(event));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orEventRecord(event, nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orStreamWaitEvent(nullptr, event, 0));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset", orEventDestroy(event));
}

TEST_F(ResetTest, ModulesAndFunctionsFromBeforeAreRefused) {
  TestModule owner;
  const orFunction_t function = owner["scale"];
  const orModule_t module = owner.release();
  const orFunction_t builtin_function = builtin("empty");
  OR_ASSERT_OK(orDeviceReset());
  orFunction_t found = nullptr;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orModuleGetFunction(&found, module, "scale"));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset", orModuleUnload(module));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orLaunchKernel(function, nullptr, 0, nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "reset",
                       orLaunchKernel(builtin_function, nullptr, 0, nullptr));
  OR_EXPECT_OK(launch_empty(nullptr));
}

TEST_F(ResetTest, PointersFromBeforeAreRefused) {
  char* ptr = device_malloc(100);
  OR_ASSERT_OK(orDeviceReset());
  char byte = 0;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "reset", orFree(ptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "reset",
                       orMemcpy(&byte, ptr, 1, orMemcpyDeviceToHost));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "reset",
                       orMemcpy(ptr, &byte, 1, orMemcpyDefault));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "reset", orMemset(ptr, 0, 1));
}

TEST_F(ResetTest, APointerFromBeforeIsIllegalInAKernel) {
  char* ptr = device_malloc(100);
  OR_ASSERT_OK(orDeviceReset());
  OR_EXPECT_OK(launch(builtin("fill"), orTestingFillArgs{ptr, 1, 1}, nullptr));
  OR_EXPECT_ERROR(orErrorIllegalAddress, orDeviceSynchronize());
  OR_EXPECT_OK(orDeviceReset());
}

TEST_F(ResetTest, AnAddressFromBeforeNeverNamesNewMemory) {
  char* before = device_malloc(512);
  size_t total = 0;
  OR_ASSERT_OK(orMemGetInfo(nullptr, &total));
  for (int round = 0; round < 3; ++round) {
    OR_ASSERT_OK(orDeviceReset());
    char* everything = device_malloc(total);
    EXPECT_TRUE(before < everything || before >= everything + total);
    OR_EXPECT_OK(orFree(everything));
  }
}

TEST_F(ResetTest, AllMemoryIsFreeAndNothingIsAliveAfterwards) {
  const orTestingCounters before = counters();
  Stream stream;
  Event event;
  TestModule module;
  device_malloc(100);
  device_malloc(1 << 20);
  stream.release();
  event.release();
  module.release();
  OR_ASSERT_OK(orDeviceReset());
  size_t free = 0;
  size_t total = 0;
  OR_EXPECT_OK(orMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
  const orTestingCounters after = counters();
  EXPECT_EQ(after.liveStreams, before.liveStreams);
  EXPECT_EQ(after.liveEvents, before.liveEvents);
  EXPECT_EQ(after.liveModules, before.liveModules);
  EXPECT_EQ(after.liveAllocations, before.liveAllocations);
}

TEST_F(ResetTest, TheDeviceWorksAfterwards) {
  OR_ASSERT_OK(orDeviceReset());
  const Stream stream;
  const Event event;
  DeviceBuffer<char> device(100);
  OR_EXPECT_OK(
      launch(builtin("fill"), orTestingFillArgs{device.get(), 100, 4}, stream));
  OR_EXPECT_OK(orEventRecord(event, stream));
  OR_EXPECT_OK(orEventSynchronize(event));
  EXPECT_EQ(device.values(), std::vector<char>(100, 4));
}

TEST_F(ResetTest, QueuedWorkIsDroppedAndAHeldGateDoesNotMatter) {
  PinnedBuffer<char> pinned(2);
  pinned[0] = 0;
  pinned[1] = 0;
  std::atomic<bool> called = false;
  Gate gate;
  Stream owner;
  const orStream_t stream = owner.release();
  gate.hold(stream);
  gate.await();
  OR_EXPECT_OK(
      launch(builtin("fill"), orTestingFillArgs{pinned.get(), 1, 1}, stream));
  OR_EXPECT_OK(orMemsetAsync(pinned.get() + 1, 1, 1, stream));
  OR_EXPECT_OK(orLaunchHostFunc(
      stream, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; },
      &called));
  OR_EXPECT_OK(orDeviceReset());
  gate.open();
  OR_EXPECT_OK(orDeviceSynchronize());
  EXPECT_EQ(pinned[0], 0);
  EXPECT_EQ(pinned[1], 0);
  EXPECT_FALSE(called);
}

TEST_F(ResetTest, AGateThatIsOnlyQueuedDoesNotMatterEither) {
  Gate gate;
  Stream owner;
  const orStream_t stream = owner.release();
  for (int i = 0; i < 10; ++i) gate.hold(stream);
  gate.hold(nullptr);
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_OK(orStreamQuery(nullptr));
}

TEST_F(ResetTest, AKernelThatRunsIsCancelledAndWaitedFor) {
  SharedWord started;
  TestModule module;
  const WaitArgs args{started.get(), nullptr, 0};
  OR_EXPECT_OK(launch(module["wait"], args, nullptr));
  module.release();
  EXPECT_TRUE(eventually([&] { return started.load() == 1; }));
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_OK(orStreamQuery(nullptr));
}

TEST_F(ResetTest, AKernelThatWaitsForAPlaceIsDropped) {
  Mark mark;
  Gate gate;
  Stream owner;  // older than those that have the places
  const orStream_t stream = owner.release();
  const int places = place_count();
  for (int i = 0; i < places; ++i) gate.hold(Stream().release(), true);
  gate.await(places);
  const std::set<pid_t> before = thread_ids();
  OR_EXPECT_OK(mark.set_by(stream));
  EXPECT_TRUE(eventually([&before] {
    const std::set<pid_t> started = new_threads(before, thread_ids());
    return !started.empty() && are_asleep(started);
  }));
  OR_EXPECT_OK(orDeviceReset());
  EXPECT_FALSE(mark.is_set());
}

TEST_F(ResetTest, AThreadThatWaitsIsReleased) {
  Gate gate;
  Stream owner;
  const orStream_t stream = owner.release();
  gate.hold(stream);
  gate.await();
  Background wait([stream] { orStreamSynchronize(stream); });
  wait.settle();
  EXPECT_FALSE(wait.done());
  OR_EXPECT_OK(orDeviceReset());
  wait.join();
}

TEST_F(ResetTest, AnotherDeviceThatWaitsForAnEventIsReleased) {
  Gate gate;
  Stream owner;
  Event event_owner;
  const orStream_t stream = owner.release();
  const orEvent_t event = event_owner.release();
  gate.hold(stream);
  OR_EXPECT_OK(orEventRecord(event, stream));
  {
    const OnDevice one(1);
    OR_EXPECT_OK(orStreamWaitEvent(nullptr, event, 0));
    OR_EXPECT_OK(launch_empty(nullptr));
    OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
  }
  OR_EXPECT_OK(orDeviceReset());
  const OnDevice one(1);
  OR_EXPECT_OK(orDeviceSynchronize());
}

TEST_F(ResetTest, AStickyFailureIsCleared) {
  OR_EXPECT_OK(launch_failing(nullptr, orErrorIllegalAddress, "on purpose"));
  OR_EXPECT_ERROR(orErrorIllegalAddress, orDeviceSynchronize());
  OR_EXPECT_ERROR(orErrorIllegalAddress, orDeviceSynchronize());
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_OK(orDeviceSynchronize());
  OR_EXPECT_OK(launch_empty(nullptr));
}

TEST_F(ResetTest, AFailureThatNobodyHasSeenIsCleared) {
  OR_EXPECT_OK(launch_failing(nullptr, orErrorLaunchFailure, "on purpose"));
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_OK(orDeviceSynchronize());
}

TEST_F(ResetTest, OtherDevicesAreNotTouched) {
  const OnDevice one(1);
  DeviceBuffer<int> buffer(2);
  buffer.set({1, 2});
  const Stream stream;
  const Event event;
  const orFunction_t function = builtin("empty");
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orEventRecord(event, stream));
  {
    const OnDevice zero(0);
    OR_EXPECT_OK(orDeviceReset());
  }
  OR_EXPECT_ERROR(orErrorNotReady, orEventQuery(event));
  gate.open();
  OR_EXPECT_OK(orEventSynchronize(event));
  OR_EXPECT_OK(orLaunchKernel(function, nullptr, 0, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(buffer.values(), (std::vector<int>{1, 2}));
}

TEST_F(ResetTest, PinnedMemorySurvives) {
  PinnedBuffer<char> pinned(1);
  pinned[0] = 9;
  OR_EXPECT_OK(orDeviceReset());
  const DeviceBuffer<char> device(1);
  OR_EXPECT_OK(orMemcpy(device.get(), pinned.get(), 1, orMemcpyHostToDevice));
  EXPECT_EQ(device.values(), std::vector<char>{9});
}

TEST_F(ResetTest, TheCurrentDeviceStaysCurrent) {
  const OnDevice one(1);
  OR_EXPECT_OK(orDeviceReset());
  int device = -1;
  OR_EXPECT_OK(orGetDevice(&device));
  EXPECT_EQ(device, 1);
}

OPENREG_CHILD(reset_unused) {
  CHILD_CHECK(orDeviceReset() == orSuccess);
  CHILD_CHECK(counters().workerThreads == 0);
  CHILD_CHECK(launch_empty(nullptr) == orSuccess);
  CHILD_CHECK(orDeviceSynchronize() == orSuccess);
  return 0;
}

TEST_F(ResetTest, AnUnusedDeviceCanBeReset) {
  expect_child_passes("reset_unused", {});
}

// Uses a bit of everything and resets.
bool use_and_reset() {
  constexpr size_t kSize = 1 << 20;
  orStream_t stream = nullptr;
  orEvent_t event = nullptr;
  void* ptr = nullptr;
  return orStreamCreate(&stream) == orSuccess &&
         orEventCreate(&event) == orSuccess &&
         orMalloc(&ptr, kSize) == orSuccess &&
         orMemsetAsync(ptr, 1, kSize, stream) == orSuccess &&
         launch_empty(stream) == orSuccess &&
         orEventRecord(event, stream) == orSuccess &&
         orStreamSynchronize(stream) == orSuccess &&
         orDeviceReset() == orSuccess;
}

OPENREG_CHILD(reset_often) {
  for (int round = 0; round < 5; ++round) CHILD_CHECK(use_and_reset());
  const size_t resident = resident_bytes();
  const size_t threads = thread_ids().size();
  const orTestingCounters before = counters();
  for (int round = 0; round < 100; ++round) CHILD_CHECK(use_and_reset());
  const orTestingCounters after = counters();
  CHILD_CHECK(after.liveAllocations == before.liveAllocations);
  CHILD_CHECK(after.liveStreams == before.liveStreams);
  CHILD_CHECK(after.liveEvents == before.liveEvents);
  CHILD_CHECK(after.workerThreads <= before.workerThreads);
  CHILD_CHECK(after.queueChunks <= before.queueChunks);
  CHILD_CHECK(eventually([&] { return thread_ids().size() <= threads; }));
  // New addresses mean new shadow memory for a sanitizer.
  if (!is_sanitized()) {
    CHILD_CHECK(resident_bytes() < resident + (size_t{16} << 20));
  }
  return 0;
}

TEST_F(ResetTest, ResettingOftenLeaksNeitherMemoryNorThreads) {
  expect_child_passes("reset_often", {});
}

}  // namespace
}  // namespace openreg::test
