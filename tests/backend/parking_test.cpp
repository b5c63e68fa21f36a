// The short way from a freed block to the next allocation: nobody sees it.
#include <algorithm>
#include <array>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using ParkingTest = AllocatorTest;

TEST_F(ParkingTest, ReusedBlocksAreCountedAsFreedAndAllocated) {
  void* first = nullptr;
  for (int i = 0; i < 10; ++i) {
    const c10::DataPtr ptr = allocator().allocate(1000);
    if (i == 0) first = ptr.get();
    EXPECT_EQ(ptr.get(), first);
  }
  const auto now = stats();
  EXPECT_EQ(now.allocation[0].allocated, 10);
  EXPECT_EQ(now.allocation[0].freed, 10);
  EXPECT_EQ(now.allocated_bytes[0].allocated, 10240);
  EXPECT_EQ(now.requested_bytes[0].freed, 10000);
  EXPECT_EQ(now.allocation[0].peak, 1);
  expect_consistent();
}

TEST_F(ParkingTest, BlocksOfSeveralSizesAreReused) {
  std::vector<size_t> sizes(16);
  std::iota(sizes.begin(), sizes.end(), 1000);
  const auto addresses = [&] {
    std::vector<c10::DataPtr> blocks;
    std::vector<void*> found;
    for (const size_t size : sizes) {
      blocks.push_back(allocator().allocate(size));
      found.push_back(blocks.back().get());
    }
    return found;
  };
  auto before = addresses();
  std::ranges::reverse(sizes);
  std::ranges::reverse(before);
  EXPECT_EQ(addresses(), before);
  EXPECT_EQ(stats().allocation[0].peak, 16);
  expect_consistent();
}

TEST_F(ParkingTest, TheBlockThatWasFreedLastIsTaken) {
  std::array<c10::DataPtr, 3> blocks;
  for (c10::DataPtr& block : blocks) block = allocator().allocate(1000);
  void* const last = blocks[1].get();
  for (const size_t i : {2, 0, 1}) drop(blocks[i]);
  EXPECT_EQ(allocator().allocate(1000).get(), last);
}

TEST_F(ParkingTest, MoreBlocksThanThereArePlacesAreFreedAsOthers) {
  std::vector<c10::DataPtr> blocks;
  for (size_t size = 1000; size < 1040; ++size) {
    blocks.push_back(allocator().allocate(size));
  }
  blocks.clear();
  EXPECT_EQ(current(stats().allocation), 0);
  expect_consistent();
}

TEST_F(ParkingTest, LargeBlocksAreNotParked) {
  {
    const c10::DataPtr freed = allocator().allocate(2 * kMiB);
  }
  const c10::DataPtr ptr = allocator().allocate(2 * kMiB);
  EXPECT_EQ(stats().allocation[0].allocated, 2);
  EXPECT_EQ(stats().allocation[0].peak, 1);
}

TEST_F(ParkingTest, MemoryThatIsParkedServesBeforeTheDriverIsAsked) {
  // All of a segment of 2 MiB, in pieces.
  std::vector<c10::DataPtr> pieces;
  for (int i = 0; i < 4; ++i) {
    pieces.push_back(allocator().allocate(512 * kKiB));
  }
  pieces.clear();
  const c10::DataPtr ptr = allocator().allocate(1 * kMiB);
  EXPECT_EQ(current(stats().segment), 1);
}

TEST_F(ParkingTest, AParkedBlockIsFreeForEverybodyWhoLooks) {
  std::atomic<bool> parked = false;
  std::atomic<bool> looked = false;
  std::thread other([&] {
    allocator().raw_deleter()(allocator().raw_allocate(1000));
    parked = true;
    parked.notify_one();
    looked.wait(false);
  });
  parked.wait(false);
  EXPECT_EQ(current(stats().allocation), 0);
  EXPECT_EQ(current(stats().allocated_bytes), 0);
  allocator().emptyCache();
  EXPECT_EQ(current(stats().reserved_bytes), 0);
  looked = true;
  looked.notify_one();
  other.join();
}

TEST_F(ParkingTest, ABlockThatAnotherThreadParkedServesThisOne) {
  void* parked = nullptr;
  std::thread([&] {
    parked = allocator().raw_allocate(1000);
    allocator().raw_deleter()(parked);
  }).join();
  const c10::DataPtr ptr = allocator().allocate(1000);
  EXPECT_EQ(ptr.get(), parked);
  EXPECT_EQ(current(stats().segment), 1);
}

TEST_F(ParkingTest, PeaksDoNotCountWhatIsParked) {
  {
    const c10::DataPtr small = allocator().allocate(1000);
  }
  {
    const c10::DataPtr other = allocator().allocate(2000);
  }
  const c10::DataPtr third = allocator().allocate(4000);
  const c10::DataPtr large = allocator().allocate(2 * kMiB);
  const auto now = stats();
  EXPECT_EQ(now.allocation[0].peak, 2);
  EXPECT_EQ(now.allocated_bytes[0].peak, 4096 + int64_t{2 * kMiB});
  EXPECT_EQ(now.active_bytes[1].peak, 4096);
  EXPECT_EQ(now.requested_bytes[1].peak, 4000);
}

TEST_F(ParkingTest, AParkedBlockIsNotFreedTwice) {
  void* const block = allocator().raw_alloc(1000, getCurrentOpenRegStream());
  allocator().raw_delete(block);
  EXPECT_THROW(allocator().raw_delete(block), c10::Error);
  expect_consistent();
}

TEST_F(ParkingTest, AnotherStreamGetsAnotherBlock) {
  void* parked = nullptr;
  {
    const c10::DataPtr ptr = allocator().allocate(1000);
    parked = ptr.get();
  }
  void* const other = allocator().raw_alloc(1000, getStreamFromPool());
  EXPECT_NE(other, parked);
  allocator().raw_delete(other);
}

}  // namespace

}  // namespace torch_openreg::test
