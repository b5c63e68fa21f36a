// Who runs when the device is full. A device runs multiProcessorCount kernels
// at a time; the tests call each of these a place and fill them with gates.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "support/process.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using PriorityTest = DriverTest;

// Takes places of the current device, each with a stream of its own, and keeps
// them until they are opened. Declare after whatever the held streams use.
class TakenPlaces {
 public:
  // Holds at one gate: they come free together.
  TakenPlaces(int count, bool occupy) {
    for (int i = 0; i < count; ++i) {
      streams_.push_back(std::make_unique<Stream>());
      gate_.hold(*streams_.back(), occupy);
    }
    gate_.await(count);
  }
  void open() { gate_.open(); }

 private:
  std::vector<std::unique_ptr<Stream>> streams_;
  Gate gate_;
};

// Waits until the threads that started after `before` sleep: a worker has run
// what it was given, or found no place for it.
void await_new_threads_asleep(const std::set<pid_t>& before) {
  EXPECT_TRUE(eventually([&before] {
    const std::set<pid_t> started = new_threads(before, thread_ids());
    return !started.empty() && are_asleep(started);
  }));
}

// Streams of every priority, lowest first, each with a worker that has started.
class Ladder {
 public:
  Ladder() {
    const std::set<pid_t> before = thread_ids();
    int least = 0;
    int greatest = 0;
    OR_EXPECT_OK(orDeviceGetStreamPriorityRange(&least, &greatest));
    for (int priority = least; priority >= greatest; --priority) {
      auto stream = std::make_unique<Stream>(orStreamNonBlocking, priority);
      Gate gate;
      gate.hold(*stream);
      gate.await();
      streams_.push_back(std::move(stream));
    }
    workers_ = new_threads(before, thread_ids());
  }

  size_t size() const { return streams_.size(); }
  orStream_t operator[](size_t i) const { return *streams_[i]; }

  // Waits until every stream's worker sleeps: each has seen its work and found
  // no place for it.
  void await_asleep() {
    EXPECT_TRUE(eventually([this] { return are_asleep(workers_); }));
  }

 private:
  std::vector<std::unique_ptr<Stream>> streams_;
  std::set<pid_t> workers_;
};

// The order in which the streams of a full ladder get the only free place.
std::vector<uint32_t> order_at_one_place(Ladder& ladder) {
  DeviceLog log(16);
  TakenPlaces others(place_count() - 1, true);
  TakenPlaces last(1, true);
  for (size_t i = 0; i < ladder.size(); ++i) {
    log.append(static_cast<uint32_t>(i), ladder[i]);
  }
  ladder.await_asleep();
  last.open();  // one place for all of them, one after the other
  for (size_t i = 0; i < ladder.size(); ++i) await_idle(ladder[i]);
  others.open();
  return log.entries();
}

TEST_F(PriorityTest, TheHighestPriorityGetsTheFirstFreePlace) {
  Ladder ladder;
  std::vector<uint32_t> expected;
  for (size_t i = ladder.size(); i > 0; --i) {
    expected.push_back(static_cast<uint32_t>(i - 1));
  }
  // More than once: a device that ignores priorities is right by luck at times.
  for (int round = 0; round < 8; ++round) {
    EXPECT_EQ(order_at_one_place(ladder), expected);
  }
}

TEST_F(PriorityTest, KernelsWaitWhileEveryPlaceIsTaken) {
  Mark mark;
  Stream stream;
  TakenPlaces all(place_count(), true);
  const std::set<pid_t> before = thread_ids();
  OR_EXPECT_OK(mark.set_by(stream));
  await_new_threads_asleep(before);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  EXPECT_FALSE(mark.is_set());
  all.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(PriorityTest, ACheapLaunchDoesNotBlockTheHostWhileEveryPlaceIsTaken) {
  Mark mark;
  Stream stream;
  TakenPlaces all(place_count(), true);
  OR_EXPECT_OK(mark.set_cheaply_by(stream));
  all.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(PriorityTest, GatesThatOnlyWaitTakeNoPlace) {
  Mark mark;
  Stream stream;
  TakenPlaces waiting(4 * place_count(), false);
  OR_EXPECT_OK(mark.set_by(stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(PriorityTest, CopiesAndHostFunctionsNeedNoPlace) {
  DeviceBuffer<unsigned char> block(16);
  PinnedBuffer<unsigned char> host(16);
  Stream stream;
  bool called = false;
  TakenPlaces all(place_count(), true);
  OR_EXPECT_OK(orMemsetAsync(block.get(), 7, 16, stream));
  OR_EXPECT_OK(
      orMemcpyAsync(host.get(), block.get(), 16, orMemcpyDeviceToHost, stream));
  OR_EXPECT_OK(orLaunchHostFunc(
      stream, [](void* data) { *static_cast<bool*>(data) = true; }, &called));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(host[15], 7);
  EXPECT_TRUE(called);
}

TEST_F(PriorityTest, AFullDeviceDoesNotHoldBackAnother) {
  TakenPlaces all(place_count(), true);
  OnDevice other(1);
  Stream there;
  OR_EXPECT_OK(launch_empty(there));
  OR_EXPECT_OK(orStreamSynchronize(there));
}

// Launches "wait" once for each place, on streams of their own, and waits until
// all of them have started.
std::vector<std::unique_ptr<Stream>> launch_on_every_place(
    orFunction_t wait, const WaitArgs& args, const SharedWord& started) {
  std::vector<std::unique_ptr<Stream>> streams;
  const int places = place_count();
  for (int i = 0; i < places; ++i) {
    streams.push_back(std::make_unique<Stream>());
    OR_EXPECT_OK(launch(wait, args, *streams.back()));
  }
  EXPECT_TRUE(eventually(
      [&] { return started.load() == static_cast<uint32_t>(places); }));
  return streams;
}

TEST_F(PriorityTest, AKernelThatSaysItWaitsGivesItsPlaceAway) {
  TestModule module;
  SharedWord started;
  SharedWord go;
  Mark mark;
  Stream stream;
  const auto waiting = launch_on_every_place(
      module["wait"], WaitArgs{started.get(), go.get(), 1}, started);
  OR_EXPECT_OK(mark.set_by(stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
  go.store(1);
}

TEST_F(PriorityTest, AKernelThatReturnsWhileItWaitsAddsNoPlace) {
  TestModule module;
  Mark mark;
  Stream stream;
  const orFunction_t kernel = module["wait_without_end"];
  OR_EXPECT_OK(orLaunchKernel(kernel, nullptr, 0, nullptr));
  OR_EXPECT_OK(orStreamSynchronize(nullptr));
  OR_EXPECT_OK(launch_cheap(kernel, nullptr, 0, nullptr));
  OR_EXPECT_OK(
      orLaunchKernelSync(kernel, nullptr, 0, nullptr, nullptr, 0, nullptr));
  TakenPlaces all(place_count(), true);
  const std::set<pid_t> before = thread_ids();
  OR_EXPECT_OK(mark.set_by(stream));
  await_new_threads_asleep(before);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  EXPECT_FALSE(mark.is_set());
  all.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(PriorityTest, AKernelThatComputesKeepsItsPlace) {
  TestModule module;
  SharedWord started;
  SharedWord go;
  Mark mark;
  Stream stream;
  const auto computing = launch_on_every_place(
      module["wait"], WaitArgs{started.get(), go.get(), 0}, started);
  const std::set<pid_t> before = thread_ids();
  OR_EXPECT_OK(mark.set_by(stream));
  await_new_threads_asleep(before);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  EXPECT_FALSE(mark.is_set());
  go.store(1);
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
}

}  // namespace
}  // namespace openreg::test
