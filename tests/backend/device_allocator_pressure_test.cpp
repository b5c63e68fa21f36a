// What happens when memory is short. The device has 512 MiB in these tests, but
// they hold for any size.
#include <limits>

#include "openreg/memory.h"
#include "support/background.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using openreg::test::Background;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DeviceAllocatorPressureTest : public AllocatorTest {
 protected:
  size_t total() { return allocator().getMemoryInfo(0).second; }

  // A size of which one block fits the device and two don't.
  size_t most() { return total() / 16 * 10; }
};

TEST_F(DeviceAllocatorPressureTest, EmptyCacheKeepsWhatIsInUse) {
  c10::DataPtr used = allocator().allocate(40 * kMiB);
  c10::DataPtr unused = allocator().allocate(60 * kMiB);
  c10::DataPtr part = allocator().allocate(512);
  c10::DataPtr rest = allocator().allocate(512);
  drop(unused);
  drop(rest);
  const size_t free = allocator().getMemoryInfo(0).first;
  allocator().emptyCache();
  EXPECT_EQ(current(stats().reserved_bytes), int64_t{42 * kMiB});
  EXPECT_EQ(allocator().getMemoryInfo(0).first, free + 60 * kMiB);
  EXPECT_EQ(stats().num_device_free, 1);
  expect_consistent();
}

TEST_F(DeviceAllocatorPressureTest, OtherPoolsThanTheDefaultAreEmpty) {
  c10::DataPtr block = allocator().allocate(512);
  drop(block);
  allocator().emptyCache({0, 7});
  EXPECT_EQ(current(stats().reserved_bytes), int64_t{2 * kMiB});
}

TEST_F(DeviceAllocatorPressureTest, TheMessageSaysWhatIsWrongAndWhatToDo) {
  const c10::DataPtr block = allocator().allocate(3 * kMiB);
  EXPECT_THAT(
      oom_message(2 * total()),
      AllOf(HasSubstr("OpenReg out of memory. Tried to allocate "),
            HasSubstr(". Device 0 has a total capacity of "),
            HasSubstr(c10::CachingAllocator::format_size(total())),
            HasSubstr(" is free. Of the allocated memory 3.00 MiB is allocated "
                      "by PyTorch, and 17.00 MiB is reserved by PyTorch but "
                      "unallocated."),
            HasSubstr("torch.openreg.empty_cache()"),
            HasSubstr("OPENREG_MEMORY"), Not(HasSubstr("allowed"))));
}

TEST_F(DeviceAllocatorPressureTest, TheProcessGoesOn) {
  oom_message(2 * total());
  EXPECT_EQ(stats().num_ooms, 1);
  EXPECT_EQ(stats().num_alloc_retries, 1);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
  const c10::DataPtr block = allocator().allocate(most());
  EXPECT_NE(block.get(), nullptr);
  expect_consistent();
}

TEST_F(DeviceAllocatorPressureTest, NoSizeIsTooAbsurd) {
  constexpr size_t kMax = std::numeric_limits<size_t>::max();
  for (size_t size : {size_t{1} << 50, size_t{1} << 60, (size_t{1} << 63) - 1,
                      size_t{1} << 63, kMax - 511, kMax}) {
    EXPECT_THAT(oom_message(size), HasSubstr("out of memory")) << size;
    expect_consistent();
  }
  EXPECT_EQ(stats().num_ooms, 6);
  EXPECT_EQ(current(stats().reserved_bytes), 0);
  EXPECT_THROW(allocator().raw_alloc(kMax, getDefaultOpenRegStream()),
               c10::OutOfMemoryError);
}

TEST_F(DeviceAllocatorPressureTest, CachedBlocksMakeRoom) {
  const OpenRegStream stream = getStreamFromPool();
  c10::DataPtr first = allocate_on(stream, most());
  drop(first);
  EXPECT_EQ(stats().num_alloc_retries, 0);
  const c10::DataPtr second = allocator().allocate(most());
  EXPECT_NE(second.get(), nullptr);
  EXPECT_EQ(stats().num_alloc_retries, 1);
  EXPECT_EQ(stats().num_ooms, 0);
  EXPECT_EQ(current(stats().segment), 1);
  expect_consistent();
}

TEST_F(DeviceAllocatorPressureTest, WaitsForBlocksThatOtherStreamsUse) {
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr first = allocator().allocate(most());
  Gate gate;
  gate.hold(user.handle());
  allocator().recordStream(first, user);
  drop(first);
  c10::DataPtr second;
  Background thread([&] { second = allocator().allocate(most()); });
  thread.settle();
  EXPECT_FALSE(thread.done());
  EXPECT_EQ(current(stats().active), 1) << "the lock is free meanwhile";
  gate.open();
  thread.join();
  EXPECT_NE(second.get(), nullptr);
  EXPECT_EQ(stats().num_ooms, 0);
  expect_consistent();
}

TEST_F(DeviceAllocatorPressureTest, ReleasingGoesOnWhileAnotherThreadWaits) {
  const OpenRegStream busy = getStreamFromPool();
  c10::DataPtr kept = allocator().allocate(512);
  c10::DataPtr first = allocate_on(busy, most());
  drop(first);
  Gate gate;
  gate.hold(busy.handle());
  // The cached segment has to go, and orFree waits for the busy stream.
  c10::DataPtr second;
  Background thread([&] { second = allocator().allocate(most()); });
  thread.settle();
  EXPECT_FALSE(thread.done());
  drop(kept);
  EXPECT_EQ(current(stats().allocation), 0);
  // This one needs the memory that is on its way: it waits and gets none.
  bool failed = false;
  Background late([&] {
    try {
      allocator().allocate(most());
    } catch (const c10::OutOfMemoryError&) {
      failed = true;
    }
  });
  late.settle();
  EXPECT_FALSE(late.done());
  gate.open();
  thread.join();
  late.join();
  EXPECT_NE(second.get(), nullptr);
  EXPECT_TRUE(failed);
  expect_consistent();
}

TEST_F(DeviceAllocatorPressureTest, TheFractionLimitsWhatIsReserved) {
  EXPECT_EQ(allocator().memory_fraction(0), 1.0);
  allocator().set_memory_fraction(0.25, 0);
  EXPECT_EQ(allocator().memory_fraction(0), 0.25);
  EXPECT_EQ(allocator().memory_fraction(1), 1.0);
  const size_t limit = total() / 4;
  EXPECT_THAT(oom_message(limit + 1),
              HasSubstr(c10::CachingAllocator::format_size(limit) +
                        " allowed; Of the allocated memory"));
  c10::DataPtr block = allocator().allocate(limit / 2);
  EXPECT_THROW(allocator().allocate(limit / 2 + kMiB), c10::OutOfMemoryError);
  // Cached memory counts, and makes room.
  drop(block);
  block = allocator().allocate(limit / 2 + 4 * kMiB);
  EXPECT_EQ(stats().num_ooms, 2);
  const DeviceScope scope(1);
  const c10::DataPtr other = allocator().allocate(limit + kMiB);
  EXPECT_NE(other.get(), nullptr);
}

TEST_F(DeviceAllocatorPressureTest, TheFractionIsBetweenZeroAndOne) {
  for (double fraction :
       {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(allocator().set_memory_fraction(fraction, 0), c10::Error);
  }
  allocator().set_memory_fraction(0.0, 0);
  EXPECT_THROW(allocator().allocate(1), c10::OutOfMemoryError);
}

TEST_F(DeviceAllocatorPressureTest, MemoryInfoIsTheDrivers) {
  const auto [free, whole] = allocator().getMemoryInfo(0);
  size_t driver_free = 0;
  size_t driver_total = 0;
  OR_ASSERT_OK(orMemGetInfo(&driver_free, &driver_total));
  EXPECT_EQ(free, driver_free);
  EXPECT_EQ(whole, driver_total);
  const c10::DataPtr block = allocator().allocate(40 * kMiB);
  EXPECT_EQ(allocator().getMemoryInfo(0).first, free - 40 * kMiB);
}

}  // namespace

}  // namespace torch_openreg::test
