// The short way from a freed block to the next allocation: nobody sees it.
#include <thread>

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
  const c10::DataPtr other = allocator().allocate(2000);
  EXPECT_EQ(stats().allocation[0].peak, 1);
  EXPECT_EQ(stats().allocated_bytes[0].peak, 2048);
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
