// The settings of PYTORCH_ALLOC_CONF, each in a process of its own.
#include "openreg/memory.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using DeviceAllocatorConfigTest = AllocatorTest;

void run_with(const char* name, const char* settings) {
  const auto child =
      openreg::test::run_child(name, {{"PYTORCH_ALLOC_CONF", settings}});
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

bool has_failed() { return ::testing::UnitTest::GetInstance()->Failed(); }

OPENREG_CHILD(round_up_divisions) {
  for (const auto& [requested, rounded] :
       std::vector<std::pair<size_t, size_t>>{{1, 512},
                                              {1025, 1536},
                                              {1200 * kKiB, 1280 * kKiB},
                                              {1025 * kKiB, 1280 * kKiB},
                                              {1024 * kKiB, 1024 * kKiB},
                                              {50 * kMiB, 56 * kMiB}}) {
    const c10::DataPtr block = allocator().allocate(requested);
    EXPECT_EQ(current(stats().allocated_bytes), static_cast<int64_t>(rounded))
        << requested;
    expect_consistent();
  }
  return has_failed();
}

TEST_F(DeviceAllocatorConfigTest, SizesAreRoundedToPartsOfAPowerOfTwo) {
  run_with("round_up_divisions", "roundup_power2_divisions:4");
}

OPENREG_CHILD(max_split_size) {
  EXPECT_EQ(stats().max_split_size, int64_t{32 * kMiB});
  c10::DataPtr big = allocator().allocate(40 * kMiB);
  const void* const address = big.get();
  EXPECT_EQ(stats().oversize_allocations.current, 1);
  EXPECT_EQ(stats().oversize_segments.current, 1);
  drop(big);
  EXPECT_EQ(stats().oversize_allocations.current, 0);
  // Never cut for a smaller request, ...
  c10::DataPtr small = allocator().allocate(12 * kMiB);
  EXPECT_EQ(current(stats().segment), 2);
  // ... but used whole for one that is nearly as large.
  c10::DataPtr near = allocator().allocate(36 * kMiB);
  EXPECT_EQ(near.get(), address);
  EXPECT_EQ(current(stats().allocated_bytes), int64_t{52 * kMiB});
  drop(near);
  expect_consistent();
  // An oversize block that is in the way goes alone; the rest stays cached.
  drop(small);
  const size_t free = allocator().getMemoryInfo(0).first;
  c10::DataPtr rest = allocator().allocate((free / kMiB & ~size_t{1}) * kMiB);
  near = allocator().allocate(32 * kMiB);
  EXPECT_EQ(near.get(), address) << "40 MiB serve 32: within the rounding";
  drop(near);
  // 62 MiB are beyond what the block of 40 MiB serves, 38 are free with it.
  EXPECT_EQ(stats().num_alloc_retries, 0);
  EXPECT_THROW(allocator().allocate(62 * kMiB), c10::OutOfMemoryError);
  drop(rest);
  expect_consistent();
  return has_failed();
}

TEST_F(DeviceAllocatorConfigTest, BlocksAboveTheLimitAreNotSplit) {
  run_with("max_split_size", "max_split_size_mb:32");
}

OPENREG_CHILD(oversize_release) {
  // A segment too large for the next request, in its way, and a cached small
  // one that has nothing to do with it.
  c10::DataPtr small = allocator().allocate(512);
  drop(small);
  const size_t total = allocator().getMemoryInfo(0).second;
  c10::DataPtr big = allocator().allocate(total / 2);
  drop(big);
  const c10::DataPtr other = allocator().allocate(total / 4);
  EXPECT_EQ(current(stats().segment), 3) << "there was room for both";
  const c10::DataPtr next = allocator().allocate(total / 4 + 2 * kMiB);
  EXPECT_EQ(stats().num_alloc_retries, 0) << "the cache was not emptied";
  EXPECT_EQ(current(stats().segment), 3);
  EXPECT_EQ(stats().oversize_segments.current, 2);
  expect_consistent();
  return has_failed();
}

TEST_F(DeviceAllocatorConfigTest, AnOversizeBlockInTheWayGoesFirst) {
  run_with("oversize_release", "max_split_size_mb:32");
}

OPENREG_CHILD(garbage_collection) {
  const size_t total = allocator().getMemoryInfo(0).second;
  const size_t part = total / 10 & ~(2 * kMiB - 1);
  // Six tenths, cached, of which the last was used a moment ago.
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(allocator().allocate(part));
  for (c10::DataPtr& block : blocks) drop(block);
  EXPECT_EQ(current(stats().segment), 6);
  for (int i = 0; i < 50; ++i) allocator().allocate(part);
  // Above the threshold of one half: what is old goes, and no more of it.
  const c10::DataPtr next = allocator().allocate(2 * part);
  EXPECT_EQ(stats().num_alloc_retries, 0);
  EXPECT_GE(stats().num_device_free, 1);
  EXPECT_LE(stats().num_device_free, 2);
  EXPECT_EQ(stats().num_ooms, 0);
  expect_consistent();
  return has_failed();
}

TEST_F(DeviceAllocatorConfigTest, GarbageIsCollectedAboveTheThreshold) {
  run_with("garbage_collection", "garbage_collection_threshold:0.5");
}

OPENREG_CHILD(large_segment_size) {
  const c10::DataPtr block = allocator().allocate(3 * kMiB);
  EXPECT_EQ(segment_of(block).total_size, 64 * kMiB);
  return has_failed();
}

TEST_F(DeviceAllocatorConfigTest, LargeSegmentsHaveTheirSize) {
  run_with("large_segment_size", "large_segment_size_mb:64");
}

OPENREG_CHILD(expandable_segments) {
  const c10::DataPtr block = allocator().allocate(3 * kMiB);
  EXPECT_FALSE(segment_of(block).is_expandable);
  expect_consistent();
  return has_failed();
}

TEST_F(DeviceAllocatorConfigTest, ExpandableSegmentsAreIgnored) {
  run_with("expandable_segments", "expandable_segments:True");
}

}  // namespace

}  // namespace torch_openreg::test
