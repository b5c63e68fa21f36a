// What the tests of the device allocator share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "backend/runtime/device_allocator.h"
#include "backend/runtime/functions.h"
#include "support/support.h"

namespace torch_openreg::test {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;
using openreg::test::Gate;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kGiB = 1024 * kMiB;

inline OpenRegDeviceAllocator& allocator() {
  return OpenRegDeviceAllocator::get();
}

// The statistics of `device`.
inline DeviceStats stats(c10::DeviceIndex device = 0) {
  return allocator().getDeviceStats(device);
}

// The number that a statistic stands at.
int64_t current(const StatArray& stat, StatType type = StatType::AGGREGATE);

// Makes a stream current for the scope.
class WithStream {
 public:
  explicit WithStream(const OpenRegStream& stream)
      : before_(getCurrentOpenRegStream(stream.device_index())) {
    setCurrentOpenRegStream(stream);
  }
  ~WithStream() { setCurrentOpenRegStream(before_); }
  WithStream(const WithStream&) = delete;
  WithStream& operator=(const WithStream&) = delete;

 private:
  const OpenRegStream before_;
};

// Memory for `stream`.
c10::DataPtr allocate_on(const OpenRegStream& stream, size_t size);

// Frees what `ptr` holds.
inline void drop(c10::DataPtr& ptr) { ptr.clear(); }

// The segment of device 0 that `ptr` lies in.
SegmentInfo segment_of(const c10::DataPtr& ptr);

// The sizes of its blocks; those that are free are negative.
std::vector<int64_t> layout(const c10::DataPtr& ptr);

// Whether the numbers of `device` agree with each other and with its segments.
void expect_consistent(c10::DeviceIndex device = 0);

// The message of the c10::OutOfMemoryError that allocating `size` bytes throws.
std::string oom_message(size_t size);

// Every test begins and ends with an empty cache, on device 0 and its default
// stream, and ends without a live block.
class AllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

}  // namespace torch_openreg::test
