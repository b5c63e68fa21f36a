#include "tests/backend/support/allocator.h"

#include "openreg/device.h"

namespace torch_openreg::test {

int64_t current(const StatArray& stat, StatType type) {
  return stat[static_cast<size_t>(type)].current;
}

c10::DataPtr allocate_on(const OpenRegStream& stream, size_t size) {
  const DeviceScope device(stream.device_index());
  const WithStream scope(stream);
  return allocator().allocate(size);
}

SegmentInfo segment_of(const c10::DataPtr& ptr) {
  const auto address = reinterpret_cast<size_t>(ptr.get());
  for (const SegmentInfo& segment : allocator().snapshot().segments) {
    if (address >= segment.address &&
        address - segment.address < segment.total_size) {
      return segment;
    }
  }
  ADD_FAILURE() << "no segment holds " << ptr.get();
  return {};
}

std::vector<int64_t> layout(const c10::DataPtr& ptr) {
  std::vector<int64_t> result;
  for (const auto& block : segment_of(ptr).blocks) {
    const auto size = static_cast<int64_t>(block.size);
    result.push_back(block.active ? size : -size);
  }
  return result;
}

namespace {

// What the segments of a snapshot add up to, in one pool or both.
struct Sums {
  int64_t segments = 0, reserved = 0, allocated = 0, allocated_bytes = 0,
          active = 0, active_bytes = 0, split = 0, split_bytes = 0,
          requested = 0;
};

void add(Sums& sums, const SegmentInfo& segment) {
  ++sums.segments;
  sums.reserved += static_cast<int64_t>(segment.total_size);
  size_t total = 0;
  bool free_before = false;
  for (const auto& block : segment.blocks) {
    const auto size = static_cast<int64_t>(block.size);
    total += block.size;
    EXPECT_EQ(block.size % 512, 0u);
    EXPECT_FALSE(free_before && !block.active) << "neighbours were not merged";
    free_before = !block.active;
    if (block.allocated) ++sums.allocated, sums.allocated_bytes += size;
    if (block.active) ++sums.active, sums.active_bytes += size;
    if (!block.active && segment.blocks.size() > 1) {
      ++sums.split, sums.split_bytes += size;
    }
    sums.requested += static_cast<int64_t>(block.requested_size);
  }
  EXPECT_EQ(total, segment.total_size);
}

void expect_sums(const DeviceStats& stats, const Sums& sums, StatType type) {
  EXPECT_EQ(current(stats.segment, type), sums.segments);
  EXPECT_EQ(current(stats.reserved_bytes, type), sums.reserved);
  EXPECT_EQ(current(stats.allocation, type), sums.allocated);
  EXPECT_EQ(current(stats.allocated_bytes, type), sums.allocated_bytes);
  EXPECT_EQ(current(stats.active, type), sums.active);
  EXPECT_EQ(current(stats.active_bytes, type), sums.active_bytes);
  EXPECT_EQ(current(stats.inactive_split, type), sums.split);
  EXPECT_EQ(current(stats.inactive_split_bytes, type), sums.split_bytes);
  EXPECT_EQ(current(stats.requested_bytes, type), sums.requested);
}

}  // namespace

void expect_consistent(c10::DeviceIndex device) {
  Sums all, small, large;
  for (const SegmentInfo& segment : allocator().snapshot().segments) {
    if (segment.device != device) continue;
    add(all, segment);
    add(segment.is_large ? large : small, segment);
  }
  const DeviceStats now = stats(device);
  expect_sums(now, all, StatType::AGGREGATE);
  expect_sums(now, small, StatType::SMALL_POOL);
  expect_sums(now, large, StatType::LARGE_POOL);
  EXPECT_EQ(current(now.segment), now.num_device_alloc - now.num_device_free);
}

std::string oom_message(size_t size) {
  try {
    allocator().allocate(size);
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  ADD_FAILURE() << "allocating " << size << " bytes did not throw";
  return {};
}

void AllocatorTest::SetUp() {
  ASSERT_GE(device_count(), 2) << "the tests need OPENREG_DEVICES=2";
  set_device(0);
  setCurrentOpenRegStream(getDefaultOpenRegStream(0));
  allocator().emptyCache();
  for (c10::DeviceIndex device : {0, 1}) {
    ASSERT_EQ(current(stats(device).reserved_bytes), 0);
    allocator().resetAccumulatedStats(device);
    allocator().resetPeakStats(device);
  }
}

void AllocatorTest::TearDown() {
  for (c10::DeviceIndex device : {0, 1}) {
    allocator().set_memory_fraction(1.0, device);
    EXPECT_EQ(current(stats(device).allocation), 0) << "a block was not freed";
  }
  allocator().record_history(false, nullptr, 0,
                             c10::CachingDeviceAllocator::RecordContext::NEVER,
                             true);
  allocator().emptyCache();
  for (c10::DeviceIndex device : {0, 1}) {
    EXPECT_EQ(current(stats(device).active), 0) << "a block is still pending";
    EXPECT_EQ(current(stats(device).reserved_bytes), 0);
  }
}

}  // namespace torch_openreg::test
