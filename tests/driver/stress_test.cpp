// Many threads, many launches, many handles: order holds, memory and threads
// stay where they were, and races end in a code. OPENREG_STRESS_SCALE makes all
// of it longer.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using StressTest = DriverTest;

constexpr size_t kMiB = size_t{1} << 20;

// Fewer rounds where a sanitizer slows each of them down.
size_t scaled(size_t rounds, size_t slower = 10) {
  return rounds * static_cast<size_t>(stress_scale()) /
         (is_sanitized() ? slower : 1);
}

// A stream whose launches are counted, and an event that stands behind the
// first `recorded` of them. Other threads wait for that event.
class CountedStream {
 public:
  // Launches a "step" that fails unless it is the next one on this stream and
  // at least `at_least` steps of `other` are done.
  orError_t step(orFunction_t function, uint64_t* counts, size_t count,
                 size_t own, size_t other, uint64_t at_least) {
    const StepArgs args{counts, count, own, launched_++, other, at_least};
    return launch(function, args, stream_);
  }

  void record() {
    const std::lock_guard lock(mutex_);
    OR_EXPECT_OK(orEventRecord(event_, stream_));
    recorded_ = launched_;
  }

  // Makes `waiter` wait for the latest record; returns the steps before it.
  uint64_t make_wait(orStream_t waiter) {
    const std::lock_guard lock(mutex_);
    OR_EXPECT_OK(orStreamWaitEvent(waiter, event_, 0));
    return recorded_;
  }

  orStream_t get() const { return stream_; }
  uint64_t launched() const { return launched_; }

 private:
  Stream stream_;
  Event event_{orEventDisableTiming};
  uint64_t launched_ = 0;  // used by the owning thread only
  std::mutex mutex_;
  uint64_t recorded_ = 0;  // guarded by mutex_
};

TEST_F(StressTest, ManyThreadsAndStreamsRunInTheOrderOfTheirDependencies) {
  constexpr size_t kThreads = 8;
  constexpr size_t kStreamsPerThread = 8;
  constexpr size_t kStreams = kThreads * kStreamsPerThread;
  const size_t launches = kStreamsPerThread * scaled(10'000);
  TestModule module;
  const orFunction_t step = module["step"];
  DeviceBuffer<uint64_t> counts(kStreams);
  counts.set(std::vector<uint64_t>(kStreams, 0));
  std::vector<CountedStream> streams(kStreams);

  const auto work = [&](size_t thread) {
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    for (size_t i = 0; i < launches; ++i) {
      const size_t own = thread * kStreamsPerThread + i % kStreamsPerThread;
      const size_t other = random() % kStreams;
      uint64_t at_least = 0;
      if (random() % 4 == 0)
        at_least = streams[other].make_wait(streams[own].get());
      const orError_t code =
          streams[own].step(step, counts.get(), kStreams, own, other, at_least);
      if (code != orSuccess) {
        ADD_FAILURE() << "launch " << i << ": " << describe(code);
        return;
      }
      if (random() % 4 == 0) streams[own].record();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();

  OR_EXPECT_OK(orDeviceSynchronize());
  const std::vector<uint64_t> done = counts.values();
  uint64_t sum = 0;
  for (size_t i = 0; i < kStreams; ++i) {
    EXPECT_EQ(done[i], streams[i].launched()) << "stream " << i;
    sum += done[i];
  }
  EXPECT_EQ(sum, kThreads * launches);
}

void launch_many(size_t launches, orStream_t stream, orEvent_t event) {
  const orFunction_t empty = builtin("empty");
  const uint64_t args[4] = {};
  for (size_t i = 0; i < launches; ++i) {
    OR_ASSERT_OK(orLaunchKernel(empty, args, sizeof args, stream));
    if (i % 16 == 0) OR_ASSERT_OK(orEventRecord(event, stream));
    if (i % 1000 == 0) OR_ASSERT_OK(orStreamSynchronize(stream));
  }
  OR_ASSERT_OK(orStreamSynchronize(stream));
}

TEST_F(StressTest, AMillionLaunchesLeaveMemoryWhereItWas) {
  Stream stream;
  Event event;
  launch_many(scaled(100'000), stream, event);  // fills the caches
  const size_t resident_before = resident_bytes();
  const uint64_t chunks_before = counters().queueChunks;
  launch_many(scaled(1'000'000), stream, event);
  EXPECT_LE(counters().queueChunks, chunks_before + 4);
  // A sanitizer keeps books of its own.
  const size_t bound = is_sanitized() ? 64 * kMiB : 4 * kMiB;
  EXPECT_LE(resident_bytes(), resident_before + bound);
}

TEST_F(StressTest, AQueueThatWasLongIsGivenBack) {
  Stream stream;
  OR_EXPECT_OK(launch_empty(stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  const uint64_t before = counters().queueChunks;
  const orFunction_t empty = builtin("empty");
  {
    Gate gate;
    gate.hold(stream);
    for (size_t i = 0; i < 50'000; ++i) {
      OR_ASSERT_OK(orLaunchKernel(empty, nullptr, 0, stream));
    }
    gate.open();
    OR_EXPECT_OK(orStreamSynchronize(stream));
  }
  EXPECT_LE(counters().queueChunks, before + 4);
}

TEST_F(StressTest, ThousandsOfStreamsAndEventsLeakNothing) {
  const size_t rounds = scaled(10'000);
  const auto use_one = [](size_t round) {
    Stream stream(round % 2 == 0 ? orStreamDefault : orStreamNonBlocking);
    Event event(round % 3 == 0 ? orEventDefault : orEventDisableTiming);
    OR_ASSERT_OK(launch_empty(stream));
    OR_ASSERT_OK(orEventRecord(event, stream));
    OR_ASSERT_OK(orStreamWaitEvent(nullptr, event, 0));
    if (round % 5 == 0) OR_ASSERT_OK(orEventSynchronize(event));
  };
  const auto threads_end = [](size_t count) {
    return eventually([count] { return thread_ids().size() <= count; });
  };
  OR_ASSERT_OK(launch_empty(nullptr));  // the default stream keeps its worker
  OR_ASSERT_OK(orDeviceSynchronize());
  const orTestingCounters before = counters();
  const size_t threads_before = thread_ids().size();
  for (size_t i = 0; i < rounds / 10; ++i) use_one(i);  // fills the caches
  OR_ASSERT_OK(orDeviceSynchronize());
  ASSERT_TRUE(threads_end(threads_before));
  const size_t resident_before = resident_bytes();

  for (size_t i = 0; i < rounds; ++i) use_one(i);
  OR_EXPECT_OK(orDeviceSynchronize());
  EXPECT_TRUE(threads_end(threads_before));
  const orTestingCounters after = counters();
  EXPECT_EQ(after.liveStreams, before.liveStreams);
  EXPECT_EQ(after.liveEvents, before.liveEvents);
  // A device process ends its queues when it comes to it.
  EXPECT_TRUE(eventually([&before] {
    const orTestingCounters now = counters();
    return now.workerThreads <= before.workerThreads &&
           now.queueChunks <= before.queueChunks + 4;
  }));
  const size_t bound = is_sanitized() ? 64 * kMiB : 16 * kMiB;
  EXPECT_LE(resident_bytes(), resident_before + bound);
}

// What a call may give while other threads destroy what it is given.
void expect_ended_well(orError_t code) {
  EXPECT_TRUE(code == orSuccess || code == orErrorInvalidHandle ||
              code == orErrorNotReady)
      << describe(code);
}

TEST_F(StressTest, CallsRacingWithDestructionEndInACode) {
  constexpr size_t kSlots = 8;
  constexpr size_t kThreads = 6;
  const size_t rounds = scaled(5'000);
  std::array<std::atomic<orStream_t>, kSlots> streams;
  std::array<std::atomic<orEvent_t>, kSlots> events;
  const auto new_stream = [] { return Stream().release(); };
  const auto new_event = [](unsigned flags) { return Event(flags).release(); };
  for (auto& stream : streams) stream = new_stream();
  for (auto& event : events) event = new_event(orEventDefault);
  const orFunction_t empty = builtin("empty");

  const auto work = [&](unsigned thread) {
    std::minstd_rand random(thread + 1);
    for (size_t i = 0; i < rounds; ++i) {
      auto& stream_slot = streams[random() % kSlots];
      auto& event_slot = events[random() % kSlots];
      const orStream_t stream = stream_slot;
      const orEvent_t event = event_slot;
      switch (random() % 10) {
        case 0:
          OR_EXPECT_OK(orStreamDestroy(stream_slot.exchange(new_stream())));
          break;
        case 1:
          OR_EXPECT_OK(orEventDestroy(event_slot.exchange(
              new_event(i % 2 ? orEventDisableTiming : 0))));
          break;
        case 2:
          expect_ended_well(orEventRecord(event, stream));
          break;
        case 3:
          expect_ended_well(orStreamWaitEvent(stream, event, 0));
          break;
        case 4:
          expect_ended_well(orStreamQuery(stream));
          break;
        case 5:
          expect_ended_well(orEventQuery(event));
          break;
        case 6:
          expect_ended_well(orStreamSynchronize(stream));
          break;
        case 7:
          expect_ended_well(orEventSynchronize(event));
          break;
        case 8:
          expect_ended_well(launch_cheap(empty, nullptr, 0, stream));
          break;
        default:
          expect_ended_well(orLaunchKernel(empty, nullptr, 0, stream));
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  OR_EXPECT_OK(orDeviceSynchronize());
  for (auto& stream : streams) OR_EXPECT_OK(orStreamDestroy(stream));
  for (auto& event : events) OR_EXPECT_OK(orEventDestroy(event));
}

TEST_F(StressTest, AllocationsOfManyThreadsStayApart) {
  constexpr size_t kThreads = 8;
  const size_t rounds = scaled(1'000);
  const auto work = [&](unsigned thread) {
    std::minstd_rand random(thread + 1);
    Stream stream;
    for (size_t i = 0; i < rounds; ++i) {
      const size_t size = 1 + random() % 100'000;
      DeviceBuffer<unsigned char> block(size);
      OR_ASSERT_OK(
          orMemsetAsync(block.get(), static_cast<int>(thread), size, stream));
      unsigned char ends[2] = {0xff, 0xff};
      OR_ASSERT_OK(
          orMemcpyAsync(&ends[0], block.get(), 1, orMemcpyDefault, stream));
      OR_ASSERT_OK(orMemcpyAsync(&ends[1], block.get() + size - 1, 1,
                                 orMemcpyDefault, stream));
      ASSERT_EQ(ends[0], thread);
      ASSERT_EQ(ends[1], thread);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace openreg::test
