// Calls that race with orDeviceReset on another thread: each ends in a code,
// and nothing stays behind. What a reset does when nothing races is in
// reset_test.cpp. All of it runs in children, because a driver that is wrong
// crashes or hangs.
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "support/background.h"
#include "support/process.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

class ResetRaceTest : public ::testing::Test {};

constexpr size_t kCompetitors = 3;

int round_count() { return is_sanitized() ? 50 : 300; }

// What a call may give while a device is reset: what it was given is of the
// life that begins, of the one that ends, or goes meanwhile.
void expect_ended_well(orError_t code) {
  EXPECT_TRUE(code == orSuccess || code == orErrorInvalidValue ||
              code == orErrorInvalidHandle || code == orErrorInvalidDevice ||
              code == orErrorLaunchFailure)
      << describe(code);
}

// What a handle that was made during a reset must give after it: it belongs to
// the new life or to none.
void expect_valid_or_refused(orError_t code) {
  EXPECT_TRUE(code == orSuccess || code == orErrorInvalidHandle)
      << describe(code);
}

// A moment that differs from round to round.
void dawdle(int round, size_t competitor) {
  const unsigned spins = (static_cast<unsigned>(round) * 193 +
                          static_cast<unsigned>(competitor) * 997) %
                         4096;
  for (std::atomic<unsigned> spin = 0; spin < spins;) ++spin;
}

// Resets device 0 round by round. `prepare` comes before each reset, `compete`
// runs at the same time on several threads, each with a number, and `check`
// comes when all is quiet again.
void race_with_resets(const std::function<void()>& prepare,
                      const std::function<void(size_t)>& compete,
                      const std::function<void()>& check) {
  std::atomic<int> current_round = 0;
  std::atomic<size_t> finished = 0;
  std::vector<std::thread> competitors;
  for (size_t i = 0; i < kCompetitors; ++i) {
    competitors.emplace_back([&, i] {
      for (int round = 1; round <= round_count(); ++round) {
        while (current_round < round) sched_yield();
        dawdle(round, i);
        compete(i);
        ++finished;
      }
    });
  }
  for (int round = 1; round <= round_count(); ++round) {
    prepare();
    finished = 0;
    current_round = round;
    OR_EXPECT_OK(orDeviceReset());
    while (finished < kCompetitors) sched_yield();
    check();
  }
  for (std::thread& competitor : competitors) competitor.join();
}

void do_nothing() {}

// A reset of device 0 on another thread that has begun and waits for a host
// function.
class HeldReset {
 public:
  HeldReset() : reset_(hold()) {
    reset_.settle();
    EXPECT_FALSE(reset_.done());
  }
  ~HeldReset() { let_go(); }
  HeldReset(const HeldReset&) = delete;
  HeldReset& operator=(const HeldReset&) = delete;

  void let_go() { let_go_ = true; }
  bool done() const { return reset_.done(); }

 private:
  // Starts the host function; returns what the other thread does then.
  std::function<void()> hold() {
    const auto wait = [](void* data) {
      auto& self = *static_cast<HeldReset*>(data);
      self.waits_ = true;
      while (!self.let_go_) sched_yield();
    };
    OR_EXPECT_OK(orLaunchHostFunc(Stream().release(), wait, this));
    EXPECT_TRUE(eventually([this] { return waits_.load(); }));
    return [] { OR_EXPECT_OK(orDeviceReset()); };
  }

  std::atomic<bool> waits_ = false;
  std::atomic<bool> let_go_ = false;
  Background reset_;  // last: it uses the others
};

// The first use of the default stream in a life that ends.
OPENREG_CHILD(launch_on_the_default_stream_during_a_reset) {
  for (int i = 0; i < 10; ++i) {
    const HeldReset reset;
    expect_ended_well(orLaunchHostFunc(nullptr, [](void*) {}, nullptr));
  }
  OR_EXPECT_OK(orDeviceReset());
  EXPECT_TRUE(eventually([] { return counters().workerThreads == 0; }));
  return child_verdict();
}

TEST_F(ResetRaceTest, LaunchesOnTheDefaultStreamLeaveNoThreadBehind) {
  expect_child_passes("launch_on_the_default_stream_during_a_reset", {});
}

// Copies from `memory` on the current device, first while the reset waits.
void copy_until_done(HeldReset& reset, const char* memory) {
  for (bool done = false; !done; done = reset.done()) {
    char host[16];
    expect_ended_well(
        orMemcpyAsync(host, memory, 16, orMemcpyDefault, nullptr));
    reset.let_go();
  }
}

OPENREG_CHILD(copy_own_memory_during_a_reset) {
  // With many lives behind it, the device takes a while to see that an address
  // is not its own.
  OR_EXPECT_OK(launch_empty(nullptr));
  for (int i = 0; i < round_count(); ++i) OR_EXPECT_OK(orDeviceReset());
  for (int i = 0; i < round_count() / 2; ++i) {
    const char* const memory = device_malloc(16);
    HeldReset reset;
    copy_until_done(reset, memory);
  }
  return child_verdict();
}

TEST_F(ResetRaceTest, CopiesOfTheDevicesMemoryEndInACode) {
  expect_child_passes("copy_own_memory_during_a_reset", {});
}

OPENREG_CHILD(copy_on_another_device_during_a_reset) {
  for (int i = 0; i < round_count() / 10; ++i) {
    const char* const memory = device_malloc(16);
    HeldReset reset;
    const OnDevice other(1);
    copy_until_done(reset, memory);
  }
  return child_verdict();
}

TEST_F(ResetRaceTest, CopiesOnAnotherDeviceEndInACode) {
  expect_child_passes("copy_on_another_device_during_a_reset", {});
}

// Copies to another device that still run there when their stream is gone: new
// streams have nothing to do with them.
OPENREG_CHILD(make_streams_while_copies_outlive_a_reset) {
  constexpr size_t kSize = size_t{4} << 20;
  for (int i = 0; i < round_count() / 10; ++i) {
    void* there = nullptr;
    {
      const OnDevice other(1);
      there = device_malloc(kSize);
    }
    const char* const here = device_malloc(kSize);
    const orStream_t stream = Stream().release();
    OR_EXPECT_OK(orMemcpyPeerAsync(there, 1, here, 0, kSize, stream));
    OR_EXPECT_OK(orDeviceReset());
    const OnDevice other(1);
    for (int k = 0; k < 4; ++k) {
      const Stream made;
      for (int n = 0; n < 3; ++n) OR_EXPECT_OK(launch_empty(made));
      OR_EXPECT_OK(orStreamSynchronize(made));
    }
  }
  return child_verdict();
}

TEST_F(ResetRaceTest, NewStreamsGoOnBesideCopiesThatOutliveTheReset) {
  expect_child_passes("make_streams_while_copies_outlive_a_reset", {});
}

// Streams that have a worker, which both sides want to end.
OPENREG_CHILD(race_destruction_of_streams) {
  std::array<std::array<orStream_t, 4>, kCompetitors> streams{};
  race_with_resets(
      [&] {
        for (auto& own : streams) {
          for (orStream_t& stream : own) {
            stream = Stream().release();
            OR_EXPECT_OK(orLaunchHostFunc(stream, [](void*) {}, nullptr));
          }
        }
      },
      [&](size_t i) {
        for (const orStream_t stream : streams[i]) {
          expect_valid_or_refused(orStreamDestroy(stream));
        }
      },
      do_nothing);
  EXPECT_EQ(counters().liveStreams, 0u);
  EXPECT_TRUE(eventually([] { return counters().workerThreads == 0; }));
  return child_verdict();
}

TEST_F(ResetRaceTest, DestroyingStreamsEndsInACode) {
  expect_child_passes("race_destruction_of_streams", {});
}

// One of each kind of object; null where it could not be made.
struct Objects {
  void make() {
    expect_ended_well(orModuleLoad(&module, OPENREG_TEST_MODULE));
    expect_ended_well(orStreamCreate(&stream));
    expect_ended_well(orEventCreate(&event));
    expect_ended_well(orMalloc(&memory, 64));
  }

  // Uses each with things that surely belong to the new life.
  void check() const {
    orFunction_t function = nullptr;
    expect_valid_or_refused(launch_empty(stream));
    if (event) expect_valid_or_refused(orEventRecord(event, nullptr));
    if (!module) return;
    expect_valid_or_refused(orModuleGetFunction(&function, module, "noop"));
    if (!function) return;
    expect_valid_or_refused(orLaunchKernel(function, nullptr, 0, nullptr));
  }

  void destroy() const {
    if (stream) expect_valid_or_refused(orStreamDestroy(stream));
    if (event) expect_valid_or_refused(orEventDestroy(event));
    if (module) expect_valid_or_refused(orModuleUnload(module));
    expect_ended_well(orFree(memory));
  }

  orModule_t module = nullptr;
  orStream_t stream = nullptr;
  orEvent_t event = nullptr;
  void* memory = nullptr;
};

OPENREG_CHILD(race_creation) {
  std::array<std::array<Objects, 2>, kCompetitors> made;
  race_with_resets([&] { made = {}; },
                   [&](size_t i) {
                     for (Objects& objects : made[i]) objects.make();
                   },
                   [&] {
                     for (const auto& own : made) {
                       for (const Objects& objects : own) {
                         objects.check();
                         objects.destroy();
                       }
                     }
                   });
  const orTestingCounters after = counters();
  EXPECT_EQ(after.liveStreams, 0u);
  EXPECT_EQ(after.liveEvents, 0u);
  EXPECT_EQ(after.liveModules, 0u);
  EXPECT_EQ(after.liveAllocations, 0u);
  OR_EXPECT_OK(orDeviceReset());
  EXPECT_EQ(counters().liveModules, 0u);
  EXPECT_TRUE(eventually([] { return counters().workerThreads == 0; }));
  return child_verdict();
}

TEST_F(ResetRaceTest, WhatIsCreatedMeanwhileIsValidOrRefused) {
  expect_child_passes("race_creation", {});
}

// More threads than cores: one that sleeps in the middle of the call is late.
OPENREG_CHILD(race_for_the_builtin_module) {
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&over] {
      orModule_t module = nullptr;
      while (!over) expect_ended_well(orModuleGetBuiltin(&module));
    });
  }
  for (int i = 0; i < 5 * round_count(); ++i) OR_EXPECT_OK(orDeviceReset());
  over = true;
  for (std::thread& thread : threads) thread.join();
  OR_EXPECT_OK(orDeviceReset());
  EXPECT_EQ(counters().liveModules, 0u);
  return child_verdict();
}

TEST_F(ResetRaceTest, TheBuiltInModuleIsNeverCounted) {
  expect_child_passes("race_for_the_builtin_module", {});
}

}  // namespace
}  // namespace openreg::test
