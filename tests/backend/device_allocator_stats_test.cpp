// Statistics and what the profiler hears.
#include <c10/util/ThreadLocalDebugInfo.h>

#include "openreg/error.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using DeviceAllocatorStatsTest = AllocatorTest;

constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);

TEST_F(DeviceAllocatorStatsTest, CountsWhatASmallAndALargeBlockAdd) {
  const c10::DataPtr small = allocator().allocate(100);
  DeviceStats now = stats();
  EXPECT_EQ(current(now.allocation), 1);
  EXPECT_EQ(current(now.requested_bytes), 100);
  EXPECT_EQ(current(now.segment), 1);
  EXPECT_EQ(now.num_device_alloc, 1);
  const c10::DataPtr large = allocator().allocate(64 * kMiB);
  now = stats();
  EXPECT_EQ(current(now.allocation), 2);
  EXPECT_EQ(current(now.allocation, StatType::SMALL_POOL), 1);
  EXPECT_EQ(current(now.allocation, StatType::LARGE_POOL), 1);
  EXPECT_EQ(current(now.requested_bytes), int64_t{64 * kMiB + 100});
  EXPECT_EQ(current(now.reserved_bytes), int64_t{66 * kMiB});
  EXPECT_EQ(now.num_device_alloc, 2);
  EXPECT_EQ(now.max_split_size, -1) << "as CUDA says that there is no limit";
  expect_consistent();
}

TEST_F(DeviceAllocatorStatsTest, PeaksAndSumsStayUntilTheyAreReset) {
  c10::DataPtr a = allocator().allocate(2 * kMiB);
  c10::DataPtr b = allocator().allocate(4 * kMiB);
  drop(a);
  DeviceStats now = stats();
  EXPECT_EQ(now.allocated_bytes[kAll].peak, int64_t{6 * kMiB});
  EXPECT_EQ(now.allocated_bytes[kAll].current, int64_t{4 * kMiB});
  EXPECT_EQ(now.allocated_bytes[kAll].allocated, int64_t{6 * kMiB});
  EXPECT_EQ(now.allocated_bytes[kAll].freed, int64_t{2 * kMiB});
  allocator().resetPeakStats(0);
  now = stats();
  EXPECT_EQ(now.allocated_bytes[kAll].peak, int64_t{4 * kMiB});
  EXPECT_EQ(now.allocated_bytes[kAll].allocated, int64_t{6 * kMiB});
  allocator().resetAccumulatedStats(0);
  now = stats();
  EXPECT_EQ(now.allocated_bytes[kAll].allocated, 0);
  EXPECT_EQ(now.allocated_bytes[kAll].freed, 0);
  EXPECT_EQ(now.allocated_bytes[kAll].current, int64_t{4 * kMiB});
  EXPECT_EQ(now.num_device_alloc, 0);
  drop(b);
}

TEST_F(DeviceAllocatorStatsTest, AResetForgetsTheCountsOfFailures) {
  oom_message(size_t{1} << 50);
  EXPECT_EQ(stats().num_ooms, 1);
  EXPECT_GT(stats().num_sync_all_streams, 0);
  allocator().resetAccumulatedStats(0);
  EXPECT_EQ(stats().num_ooms, 0);
  EXPECT_EQ(stats().num_alloc_retries, 0);
  EXPECT_EQ(stats().num_sync_all_streams, 0);
}

// Cutting and uniting count by their results: the same block, taken and given
// back, leaves the sums of split memory where one cut and one union put them.
TEST_F(DeviceAllocatorStatsTest, SplitMemoryIsCountedByResults) {
  const c10::DataPtr wall = allocator().allocate(512);
  const auto rest = static_cast<int64_t>(2 * kMiB - 512);
  EXPECT_EQ(stats().inactive_split_bytes[kAll].allocated, rest);
  c10::DataPtr block = allocator().allocate(512);
  EXPECT_EQ(stats().inactive_split_bytes[kAll].freed, 512);
  EXPECT_EQ(stats().inactive_split[kAll].freed, 0);
  drop(block);
  EXPECT_EQ(stats().inactive_split_bytes[kAll].allocated, rest + 512);
  EXPECT_EQ(stats().inactive_split[kAll].allocated, 1);
  EXPECT_EQ(stats().inactive_split_bytes[kAll].peak, rest);
}

TEST_F(DeviceAllocatorStatsTest, ABadIndexIsAnErrorOfTheDevice) {
  for (int device : {device_count() + 0, 100}) {
    const auto index = static_cast<c10::DeviceIndex>(device);
    EXPECT_THROW(allocator().getDeviceStats(index), c10::AcceleratorError);
    EXPECT_THROW(allocator().resetPeakStats(index), c10::AcceleratorError);
    EXPECT_THROW(allocator().resetAccumulatedStats(index),
                 c10::AcceleratorError);
    EXPECT_THROW(allocator().getMemoryInfo(index), c10::AcceleratorError);
    EXPECT_THROW(allocator().memory_fraction(index), c10::AcceleratorError);
    EXPECT_THROW(allocator().set_memory_fraction(0.5, index),
                 c10::AcceleratorError);
  }
}

OPENREG_CHILD(unused_allocator) {
  CHILD_CHECK(!allocator().initialized());
  CHILD_CHECK(current(stats(0).reserved_bytes) == 0);
  CHILD_CHECK(stats(1).num_device_alloc == 0);
  allocator().resetPeakStats(1);
  allocator().resetAccumulatedStats(1);
  allocator().set_memory_fraction(0.5, 1);
  allocator().emptyCache();
  CHILD_CHECK(allocator().snapshot().segments.empty());
  CHILD_CHECK(stats(1).num_sync_all_streams == 0);
  CHILD_CHECK(openreg::test::counters().openDevices == 0);
  CHILD_CHECK(!has_primary_context(0) && !allocator().initialized());
  const c10::DataPtr block = allocator().allocate(1);
  CHILD_CHECK(has_primary_context(0) && !has_primary_context(1));
  CHILD_CHECK(allocator().initialized());
  return 0;
}

TEST_F(DeviceAllocatorStatsTest, AskingDoesNotUseADevice) {
  const auto child = openreg::test::run_child("unused_allocator");
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

struct Listener : c10::MemoryReportingInfoBase {
  struct Entry {
    void* ptr;
    int64_t change;
    size_t allocated, reserved;
    bool operator==(const Entry&) const = default;
  };
  void reportMemoryUsage(void* ptr, int64_t change, size_t allocated,
                         size_t reserved, c10::Device device) override {
    EXPECT_EQ(device, c10::Device(c10::DeviceType::PrivateUse1, 0));
    entries.push_back({ptr, change, allocated, reserved});
  }
  void reportOutOfMemory(int64_t size, size_t, size_t, c10::Device) override {
    out_of_memory.push_back(size);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::vector<Entry> entries;
  std::vector<int64_t> out_of_memory;
};

TEST_F(DeviceAllocatorStatsTest, TheProfilerHearsOfEveryBlock) {
  const auto listener = std::make_shared<Listener>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, listener);
  c10::DataPtr block = allocator().allocate(600);
  void* const ptr = block.get();
  drop(block);
  EXPECT_THAT(listener->entries,
              ::testing::ElementsAre(Listener::Entry{ptr, 1024, 1024, 2 * kMiB},
                                     Listener::Entry{ptr, -1024, 0, 2 * kMiB}));
  oom_message(size_t{1} << 50);
  EXPECT_THAT(listener->out_of_memory,
              ::testing::ElementsAre(int64_t{1} << 50));
}

}  // namespace

}  // namespace torch_openreg::test
