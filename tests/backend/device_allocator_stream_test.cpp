// Blocks and streams: what is reused when.
#include "openreg/memory.h"
#include "support/background.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using DeviceAllocatorStreamTest = AllocatorTest;
using openreg::test::Background;
using openreg::test::counters;

constexpr size_t kSize = 3 * kMiB;

TEST_F(DeviceAllocatorStreamTest, ABlockIsReusedAtOnceOnItsBusyStream) {
  const OpenRegStream stream = getStreamFromPool();
  Gate gate;
  gate.hold(stream.handle());
  c10::DataPtr first = allocate_on(stream, kSize);
  void* const address = first.get();
  drop(first);
  const c10::DataPtr second = allocate_on(stream, kSize);
  EXPECT_EQ(second.get(), address);
  EXPECT_FALSE(stream.query()) << "nothing has waited for the stream";
}

TEST_F(DeviceAllocatorStreamTest, ABlockStaysWithItsStream) {
  const OpenRegStream a = getStreamFromPool();
  const OpenRegStream b = getStreamFromPool();
  c10::DataPtr first = allocate_on(a, kSize);
  void* const address = first.get();
  drop(first);
  const c10::DataPtr other = allocate_on(b, kSize);
  EXPECT_NE(other.get(), address);
  const c10::DataPtr again = allocate_on(a, kSize);
  EXPECT_EQ(again.get(), address);
  EXPECT_EQ(segment_of(again).stream, a.handle());
  EXPECT_EQ(segment_of(other).stream, b.handle());
}

TEST_F(DeviceAllocatorStreamTest, ARecordedStreamDelaysReuse) {
  const OpenRegStream owner = getDefaultOpenRegStream();
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr block = allocate_on(owner, kSize);
  void* const address = block.get();
  Gate gate;
  gate.hold(user.handle());
  allocator().recordStream(block, user);
  drop(block);
  EXPECT_EQ(current(stats().allocation), 0);
  EXPECT_EQ(current(stats().allocated_bytes), 0);
  EXPECT_EQ(current(stats().active), 1);
  EXPECT_EQ(current(stats().active_bytes), int64_t{kSize});
  EXPECT_EQ(current(stats().requested_bytes), int64_t{kSize});
  expect_consistent();
  {
    const c10::DataPtr other = allocate_on(owner, kSize);
    EXPECT_NE(other.get(), address);
    EXPECT_EQ(current(stats().active), 2);
    expect_consistent();
  }
  gate.open();
  user.synchronize();
  const c10::DataPtr again = allocate_on(owner, kSize);
  EXPECT_EQ(again.get(), address);
  EXPECT_EQ(current(stats().active), 1);
  expect_consistent();
}

TEST_F(DeviceAllocatorStreamTest, EveryRecordedStreamIsWaitedFor) {
  const OpenRegStream first = getStreamFromPool();
  const OpenRegStream second = getStreamFromPool();
  c10::DataPtr block = allocator().allocate(kSize);
  Gate first_gate, second_gate;
  first_gate.hold(first.handle());
  second_gate.hold(second.handle());
  for (const OpenRegStream& stream : {first, second, first}) {
    allocator().recordStream(block, stream);
  }
  drop(block);
  const auto poll = [] { allocator().allocate(1); };
  second_gate.open();
  second.synchronize();
  poll();
  EXPECT_EQ(current(stats().active), 1);
  first_gate.open();
  first.synchronize();
  poll();
  EXPECT_EQ(current(stats().active), 0);
}

TEST_F(DeviceAllocatorStreamTest, WorkBehindTheReleaseIsNotWaitedFor) {
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr block = allocator().allocate(kSize);
  allocator().recordStream(block, user);
  drop(block);
  user.synchronize();
  Gate gate;
  gate.hold(user.handle());
  allocator().allocate(1);
  EXPECT_EQ(current(stats().active), 0);
}

TEST_F(DeviceAllocatorStreamTest, RecordingTheOwnStreamChangesNothing) {
  const OpenRegStream stream = getStreamFromPool();
  c10::DataPtr block = allocate_on(stream, kSize);
  Gate gate;
  gate.hold(stream.handle());
  allocator().recordStream(block, stream);
  drop(block);
  EXPECT_EQ(current(stats().active), 0);
}

TEST_F(DeviceAllocatorStreamTest, TheSameNumberOnAnotherDeviceIsAnotherStream) {
  c10::DataPtr block = allocator().allocate(kSize);
  const OpenRegStream user = getDefaultOpenRegStream(1);
  Gate gate;
  {
    const DeviceScope scope(1);
    gate.hold(user.handle());
  }
  allocator().recordStream(block, user);
  drop(block);
  allocator().allocate(1);
  EXPECT_EQ(current(stats(0).active), 1);
  gate.open();
  user.synchronize();
  allocator().allocate(1);
  EXPECT_EQ(current(stats(0).active), 0);
}

TEST_F(DeviceAllocatorStreamTest, ForeignMemoryIsIgnored) {
  const OpenRegStream stream = getStreamFromPool();
  openreg::test::DeviceBuffer<char> foreign(512);
  const c10::Device device(c10::DeviceType::PrivateUse1, 0);
  allocator().recordStream(c10::DataPtr(foreign.get(), device), stream);
  allocator().recordStream(c10::DataPtr(nullptr, device), stream);
  // A view of our memory that starts inside a block.
  c10::DataPtr block = allocator().allocate(kSize);
  allocator().recordStream(
      c10::DataPtr(static_cast<char*>(block.get()) + 512, device), stream);
  Gate gate;
  gate.hold(stream.handle());
  drop(block);
  EXPECT_EQ(current(stats().active), 0);
}

TEST_F(DeviceAllocatorStreamTest, StreamsOfOtherDeviceTypesAreRefused) {
  const c10::DataPtr block = allocator().allocate(512);
  const c10::Stream cpu(c10::Stream::DEFAULT,
                        c10::Device(c10::DeviceType::CPU, 0));
  EXPECT_THROW(allocator().recordStream(block, cpu), c10::Error);
}

TEST_F(DeviceAllocatorStreamTest, EventsAreUsedAgain) {
  const OpenRegStream user = getStreamFromPool();
  const auto cycle = [&] {
    std::vector<c10::DataPtr> blocks;
    for (int i = 0; i < 10; ++i) {
      blocks.push_back(allocator().allocate(512));
      allocator().recordStream(blocks.back(), user);
    }
    blocks.clear();
    user.synchronize();
    allocator().allocate(512);
  };
  cycle();
  const size_t events = counters().liveEvents;
  for (int i = 0; i < 20; ++i) cycle();
  EXPECT_EQ(counters().liveEvents, events);
}

TEST_F(DeviceAllocatorStreamTest, ADestroyedStreamIsWaitedForByEmptyCache) {
  orStream_t handle = nullptr;
  OR_ASSERT_OK(orStreamCreateWithFlags(&handle, orStreamNonBlocking));
  c10::DataPtr block = allocator().allocate(kSize);
  Gate gate;
  gate.hold(handle);
  allocator().recordStream(block, getStreamFromExternal(handle, 0));
  OR_ASSERT_OK(orStreamDestroy(handle));
  drop(block);
  allocator().allocate(1);
  EXPECT_EQ(current(stats().active), 1) << "its work may still run";
  gate.open();
  allocator().emptyCache();
  EXPECT_EQ(current(stats().active), 0);
}

TEST_F(DeviceAllocatorStreamTest, AllocatingNeverWaitsForABusyStream) {
  const OpenRegStream stream = getStreamFromPool();
  Gate gate;
  gate.hold(stream.handle());
  c10::DataPtr small = allocate_on(stream, 512);
  c10::DataPtr large = allocate_on(stream, 100 * kMiB);
  drop(small);
  drop(large);
  EXPECT_FALSE(stream.query());
}

TEST_F(DeviceAllocatorStreamTest, EmptyCacheWaitsAndLetsOthersGoOn) {
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr block = allocator().allocate(kSize);
  c10::DataPtr kept = allocator().allocate(512);
  Gate gate;
  gate.hold(user.handle());
  allocator().recordStream(block, user);
  drop(block);
  Background thread([] { allocator().emptyCache(); });
  thread.settle();
  EXPECT_FALSE(thread.done());
  // The lock is free: statistics, releases and the cache go on.
  EXPECT_EQ(current(stats().active), 2);
  drop(kept);
  kept = allocator().allocate(512);
  c10::DataPtr more = allocator().allocate(kSize);
  expect_consistent();
  gate.open();
  thread.join();
  EXPECT_EQ(current(stats().active), 2);
  expect_consistent();
}

}  // namespace

}  // namespace torch_openreg::test
