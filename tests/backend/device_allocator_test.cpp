// Blocks: their sizes, where they come from, and how they are cut and united.
#include <cstring>

#include "openreg/memory.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using ::testing::ElementsAre;

using DeviceAllocatorTest = AllocatorTest;

int64_t signed_mib(double mib) { return static_cast<int64_t>(mib * kMiB); }

TEST_F(DeviceAllocatorTest, IsTheAllocatorOfTheDeviceType) {
  EXPECT_EQ(c10::GetAllocator(c10::DeviceType::PrivateUse1), &allocator());
  EXPECT_EQ(c10::getDeviceAllocator(c10::DeviceType::PrivateUse1),
            &allocator());
}

TEST_F(DeviceAllocatorTest, SizesAreRoundedTo512) {
  for (const auto& [requested, rounded] :
       std::vector<std::pair<size_t, int64_t>>{{1, 512},
                                               {512, 512},
                                               {513, 1024},
                                               {4096, 4096},
                                               {kMiB, 1048576},
                                               {kMiB + 1, 1049088}}) {
    const c10::DataPtr ptr = allocator().allocate(requested);
    EXPECT_EQ(current(stats().allocated_bytes), rounded) << requested;
    EXPECT_EQ(current(stats().active_bytes), rounded) << requested;
    EXPECT_EQ(current(stats().requested_bytes),
              static_cast<int64_t>(requested));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr.get()) % 512, 0u);
    expect_consistent();
  }
}

TEST_F(DeviceAllocatorTest, ADataPtrCarriesItsDeviceAndIsItsOwnContext) {
  const DeviceScope scope(1);
  const c10::DataPtr ptr = allocator().allocate(100);
  EXPECT_EQ(ptr.device(), c10::Device(c10::DeviceType::PrivateUse1, 1));
  EXPECT_EQ(ptr.get(), ptr.get_context());
  EXPECT_EQ(ptr.get_deleter(), allocator().raw_deleter());
  EXPECT_TRUE(allocator().is_simple_data_ptr(ptr));
  orPointerAttributes attributes{};
  OR_ASSERT_OK(orPointerGetAttributes(&attributes, ptr.get()));
  EXPECT_EQ(attributes.device, 1);
}

TEST_F(DeviceAllocatorTest, ZeroBytesAreANullPointerOfTheDevice) {
  const DeviceScope scope(1);
  const c10::DataPtr ptr = allocator().allocate(0);
  EXPECT_EQ(ptr.get(), nullptr);
  EXPECT_EQ(ptr.device(), c10::Device(c10::DeviceType::PrivateUse1, 1));
  EXPECT_EQ(current(stats(1).allocation), 0);
  EXPECT_EQ(stats(1).allocation[0].allocated, 0);
  EXPECT_EQ(allocator().raw_alloc(0, getDefaultOpenRegStream(1)), nullptr);
  allocator().raw_delete(nullptr);
}

TEST_F(DeviceAllocatorTest, EachSizeHasItsPoolAndSegment) {
  const auto segment = [](size_t size) {
    allocator().emptyCache();
    const c10::DataPtr ptr = allocator().allocate(size);
    const SegmentInfo info = segment_of(ptr);
    EXPECT_EQ(current(stats().allocation, info.is_large ? StatType::LARGE_POOL
                                                        : StatType::SMALL_POOL),
              1);
    return std::pair(info.is_large, info.total_size);
  };
  EXPECT_EQ(segment(1), std::pair(false, 2 * kMiB));
  EXPECT_EQ(segment(kMiB), std::pair(false, 2 * kMiB));
  EXPECT_EQ(segment(kMiB + 1), std::pair(true, 20 * kMiB));
  EXPECT_EQ(segment(10 * kMiB - 512), std::pair(true, 20 * kMiB));
  EXPECT_EQ(segment(10 * kMiB), std::pair(true, 10 * kMiB));
  EXPECT_EQ(segment(10 * kMiB + 1), std::pair(true, 12 * kMiB));
  EXPECT_EQ(segment(64 * kMiB), std::pair(true, 64 * kMiB));
}

TEST_F(DeviceAllocatorTest, BlocksAreCutFromASegmentInOrder) {
  const c10::DataPtr a = allocator().allocate(512);
  const c10::DataPtr b = allocator().allocate(1024);
  EXPECT_EQ(static_cast<char*>(a.get()) + 512, b.get());
  EXPECT_THAT(layout(a), ElementsAre(512, 1024, -(2097152 - 1536)));
  EXPECT_EQ(current(stats().segment), 1);
  EXPECT_EQ(current(stats().inactive_split), 1);
  EXPECT_EQ(current(stats().inactive_split_bytes), 2097152 - 1536);
}

TEST_F(DeviceAllocatorTest, NeighboursUniteInAnyOrderOfRelease) {
  for (const auto& order : std::vector<std::vector<size_t>>{
           {0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    std::array<c10::DataPtr, 3> blocks;
    for (c10::DataPtr& block : blocks) block = allocator().allocate(5 * kKiB);
    c10::DataPtr probe(blocks[0].get(), blocks[0].device());
    for (size_t i : order) {
      drop(blocks[i]);
      expect_consistent();
    }
    EXPECT_THAT(layout(probe), ElementsAre(-2097152));
    EXPECT_EQ(current(stats().inactive_split), 0);
  }
  EXPECT_EQ(stats().num_device_alloc, 1);
}

TEST_F(DeviceAllocatorTest, TheSmallestBlockThatFitsIsTaken) {
  // Holes of 8, 2 and 4 KiB, kept apart by blocks in use.
  std::vector<c10::DataPtr> walls;
  std::vector<c10::DataPtr> holes;
  for (size_t size : {8 * kKiB, 2 * kKiB, 4 * kKiB}) {
    holes.push_back(allocator().allocate(size));
    walls.push_back(allocator().allocate(512));
  }
  void* const four = holes[2].get();
  holes.clear();
  stats();  // nothing is parked any more
  const c10::DataPtr found = allocator().allocate(3 * kKiB);
  EXPECT_EQ(found.get(), four);
  expect_consistent();
}

TEST_F(DeviceAllocatorTest, ALargeRestIsKeptAndASmallOneIsWasted) {
  c10::DataPtr whole = allocator().allocate(30 * kMiB);
  const void* const base = whole.get();
  drop(whole);
  {
    // A rest of 1 MiB is not worth a block.
    const c10::DataPtr ptr = allocator().allocate(29 * kMiB);
    EXPECT_EQ(ptr.get(), base);
    EXPECT_THAT(layout(ptr), ElementsAre(signed_mib(30)));
    EXPECT_EQ(current(stats().allocated_bytes), signed_mib(30));
    EXPECT_EQ(current(stats().requested_bytes), signed_mib(29));
  }
  const c10::DataPtr ptr = allocator().allocate(29 * kMiB - 512);
  EXPECT_EQ(ptr.get(), base);
  EXPECT_THAT(layout(ptr),
              ElementsAre(signed_mib(29) - 512, -(signed_mib(1) + 512)));
  expect_consistent();
}

TEST_F(DeviceAllocatorTest, AFreedBlockIsUsedAgain) {
  c10::DataPtr first = allocator().allocate(3 * kMiB);
  void* const address = first.get();
  drop(first);
  EXPECT_EQ(current(stats().allocated_bytes), 0);
  EXPECT_EQ(current(stats().reserved_bytes), signed_mib(20));
  const c10::DataPtr second = allocator().allocate(3 * kMiB);
  EXPECT_EQ(second.get(), address);
  EXPECT_EQ(stats().num_device_alloc, 1);
}

TEST_F(DeviceAllocatorTest, RawBlocksLiveUntilTheyAreDeleted) {
  const OpenRegStream stream = getStreamFromPool(0, 1);
  void* const ptr = allocator().raw_alloc(700, stream);
  EXPECT_EQ(current(stats(1).allocated_bytes), 1024);
  EXPECT_EQ(current(stats(0).allocated_bytes), 0);
  allocator().raw_delete(ptr);
  EXPECT_EQ(current(stats(1).allocated_bytes), 0);
  EXPECT_THROW(allocator().raw_delete(ptr), c10::Error) << "freed twice";
  int on_the_stack = 0;
  EXPECT_THROW(allocator().raw_delete(&on_the_stack), c10::Error);
}

TEST_F(DeviceAllocatorTest, TheInterfacesRawFunctionsWork) {
  c10::Allocator& interface = allocator();
  void* const ptr = interface.raw_allocate(100);
  EXPECT_EQ(current(stats().allocation), 1);
  interface.raw_deallocate(ptr);
  EXPECT_EQ(current(stats().allocation), 0);
}

TEST_F(DeviceAllocatorTest, CloneCopiesTheBytes) {
  const std::vector<char> bytes = openreg::test::pattern(5000);
  const c10::DataPtr source = allocator().allocate(bytes.size());
  allocator().copy_data(source.get(), bytes.data(), bytes.size());
  const c10::DataPtr copy = allocator().clone(source.get(), bytes.size());
  EXPECT_NE(copy.get(), source.get());
  std::vector<char> result(bytes.size());
  allocator().copy_data(result.data(), copy.get(), result.size());
  EXPECT_EQ(result, bytes);
}

TEST_F(DeviceAllocatorTest, CopyToPinnedMemoryWaits) {
  const OpenRegStream stream = getStreamFromPool();
  const WithStream scope(stream);
  const c10::DataPtr ptr = allocator().allocate(64);
  OR_ASSERT_OK(orMemsetAsync(ptr.get(), 7, 64, stream.handle()));
  openreg::test::PinnedBuffer<char> pinned(64);
  allocator().copy_data(pinned.get(), ptr.get(), 64);
  EXPECT_TRUE(stream.query());
  EXPECT_EQ(pinned[63], 7);
}

TEST_F(DeviceAllocatorTest, BaseAllocationIsTheSegment) {
  const c10::DataPtr a = allocator().allocate(512);
  const c10::DataPtr b = allocator().allocate(512);
  const auto expected = std::pair<void*, size_t>(a.get(), 2 * kMiB);
  EXPECT_EQ(allocator().base_allocation(b.get()), expected);
  EXPECT_EQ(allocator().base_allocation(static_cast<char*>(b.get()) + 5),
            expected);
  int on_the_stack = 0;
  EXPECT_THROW(allocator().base_allocation(&on_the_stack), c10::Error);
}

TEST_F(DeviceAllocatorTest, EachDeviceHasItsOwnMemory) {
  const c10::DataPtr first = allocator().allocate(512);
  const DeviceScope scope(1);
  const c10::DataPtr second = allocator().allocate(1024);
  EXPECT_EQ(current(stats(0).allocated_bytes), 512);
  EXPECT_EQ(current(stats(1).allocated_bytes), 1024);
  EXPECT_EQ(current(stats(-1).allocated_bytes), 1024) << "the current device";
  expect_consistent(0);
  expect_consistent(1);
}

}  // namespace

}  // namespace torch_openreg::test
