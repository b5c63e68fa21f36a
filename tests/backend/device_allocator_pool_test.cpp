// Memory pools: whose memory a block is, and when a pool's goes back to the
// device.
#include <thread>

#include "backend/runtime/mem_pool.h"
#include "support/background.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using openreg::test::Background;
using Pool = std::shared_ptr<OpenRegMemPool>;
using Id = c10::MempoolId_t;

const Id kNone{0, 0};

class DeviceAllocatorPoolTest : public AllocatorTest {
 protected:
  static c10::DataPtr allocate_in(const Pool& pool, size_t size) {
    const OpenRegMemPoolScope scope(pool, -1);
    return allocator().allocate(size);
  }
  static Id pool_of(const c10::DataPtr& ptr) {
    return segment_of(ptr).owner_private_pool_id;
  }
  static int64_t reserved() { return current(stats().reserved_bytes); }
};

TEST_F(DeviceAllocatorPoolTest, ABlockIsThePoolsOfTheInnermostScope) {
  const Pool outer = OpenRegMemPool::make();
  const Pool inner = OpenRegMemPool::make();
  EXPECT_NE(outer->id(), inner->id());
  EXPECT_EQ(current_mem_pool(0), nullptr);
  const OpenRegMemPoolScope first(outer, 0);
  const c10::DataPtr a = allocator().allocate(512);
  {
    const OpenRegMemPoolScope second(inner, 0);
    const OpenRegMemPoolScope elsewhere(outer, 1);
    EXPECT_EQ(current_mem_pool(0), inner.get());
    EXPECT_EQ(pool_of(allocator().allocate(512)), inner->id());
  }
  const c10::DataPtr b = allocator().allocate(512);
  EXPECT_EQ(pool_of(a), outer->id());
  EXPECT_EQ(pool_of(b), outer->id());
  EXPECT_EQ(current_mem_pool(1), nullptr);
  expect_consistent();
}

TEST_F(DeviceAllocatorPoolTest, ScopesMayEndInAnyOrder) {
  const Pool one = OpenRegMemPool::make();
  const Pool two = OpenRegMemPool::make();
  OpenRegMemPoolScope first(one, 0);
  OpenRegMemPoolScope second(two, 0);
  first.leave();
  EXPECT_EQ(one->use_count(), 1);
  EXPECT_EQ(current_mem_pool(0), two.get());
  first.leave();
  second.leave();
  EXPECT_EQ(current_mem_pool(0), nullptr);
  EXPECT_EQ(two->use_count(), 1);
}

TEST_F(DeviceAllocatorPoolTest, AScopeNeedsADeviceAndAPool) {
  const Pool pool = OpenRegMemPool::make();
  EXPECT_THROW(OpenRegMemPoolScope(pool, 99), c10::AcceleratorError);
  EXPECT_THROW(OpenRegMemPoolScope(nullptr, 0), c10::ValueError);
  EXPECT_EQ(pool->use_count(), 1);
  EXPECT_EQ(current_mem_pool(0), nullptr);
}

// See Note [Parked blocks]: the block that a thread frees is the one that it
// gets next, but not from one pool to another.
TEST_F(DeviceAllocatorPoolTest, AParkedBlockStaysInItsPool) {
  const Pool pool = OpenRegMemPool::make();
  const Pool other = OpenRegMemPool::make();
  void* const outside = allocator().allocate(1000).get();
  void* const inside = allocate_in(pool, 1000).get();
  EXPECT_NE(inside, outside);
  EXPECT_EQ(allocate_in(pool, 1000).get(), inside);
  EXPECT_NE(allocate_in(other, 1000).get(), inside);
  EXPECT_EQ(allocate_in(pool, 1000).get(), inside);
  EXPECT_EQ(allocator().allocate(1000).get(), outside);
  EXPECT_EQ(stats().allocation[0].allocated, 6);
  EXPECT_EQ(current(stats().segment), 3);
  expect_consistent();
}

TEST_F(DeviceAllocatorPoolTest, AParkedBlockOfADeadPoolServesNobody) {
  // The end of the pool has looked at all that is parked; this comes later.
  const auto park_dead = [] {
    Pool pool = OpenRegMemPool::make();
    c10::DataPtr block = allocate_in(pool, 1000);
    pool.reset();
    return block.get();
  };
  const Pool next = OpenRegMemPool::make();
  void* const first = park_dead();
  EXPECT_NE(allocate_in(next, 1000).get(), first);
  void* const second = park_dead();
  EXPECT_NE(allocator().allocate(1000).get(), second);
  expect_consistent();
}

TEST_F(DeviceAllocatorPoolTest, RawBlocksAreThePoolsAsWell) {
  const Pool pool = OpenRegMemPool::make();
  const OpenRegMemPoolScope scope(pool, 0);
  void* const raw = allocator().raw_alloc(512, getStreamFromPool());
  EXPECT_EQ(allocator().snapshot().segments.at(0).owner_private_pool_id,
            pool->id());
  allocator().raw_delete(raw);
}

TEST_F(DeviceAllocatorPoolTest, AnotherThreadIsNotConcernedButMayLeave) {
  const Pool pool = OpenRegMemPool::make();
  OpenRegMemPoolScope scope(pool, 0);
  std::thread([&] {
    EXPECT_EQ(current_mem_pool(0), nullptr);
    EXPECT_EQ(pool_of(allocator().allocate(512)), kNone);
    scope.leave();
  }).join();
  EXPECT_EQ(current_mem_pool(0), nullptr);
  EXPECT_EQ(pool->use_count(), 1);
  EXPECT_EQ(pool_of(allocator().allocate(512)), kNone);
}

TEST_F(DeviceAllocatorPoolTest, ALivePoolIsEmptiedByItsIdOnly) {
  const Pool pool = OpenRegMemPool::make();
  const c10::DataPtr kept = allocate_in(pool, 40 * kMiB);
  allocate_in(pool, 60 * kMiB);
  allocator().allocate(20 * kMiB);
  allocator().emptyCache();
  EXPECT_EQ(reserved(), int64_t{100 * kMiB});
  allocator().emptyCache({0, pool->id().second + 1});
  EXPECT_EQ(reserved(), int64_t{100 * kMiB});
  allocator().allocate(20 * kMiB);
  allocator().emptyCache(pool->id());
  EXPECT_EQ(reserved(), int64_t{60 * kMiB});
  EXPECT_EQ(pool_of(kept), pool->id());
  expect_consistent();
}

TEST_F(DeviceAllocatorPoolTest, TheEndOfAPoolGivesBackWhatIsUnused) {
  Pool pool = OpenRegMemPool::make();
  const Id id = pool->id();
  c10::DataPtr kept = allocate_in(pool, 40 * kMiB);
  allocate_in(pool, 60 * kMiB);
  pool.reset();
  EXPECT_EQ(reserved(), int64_t{40 * kMiB});
  EXPECT_EQ(pool_of(kept), id);
  drop(kept);
  EXPECT_EQ(reserved(), int64_t{40 * kMiB});
  allocator().emptyCache();
  EXPECT_EQ(reserved(), 0);
  const auto& by_pool = stats().reserved_bytes_by_private_pools;
  EXPECT_EQ(by_pool.at(id)[0].current, 0);
  EXPECT_EQ(by_pool.at(id)[0].peak, int64_t{100 * kMiB});
}

TEST_F(DeviceAllocatorPoolTest, AScopeKeepsItsPool) {
  Pool pool = OpenRegMemPool::make();
  OpenRegMemPoolScope scope(pool, 0);
  pool.reset();
  void* const first = allocator().allocate(30 * kMiB).get();
  allocator().emptyCache();
  EXPECT_EQ(allocator().allocate(30 * kMiB).get(), first);
  EXPECT_EQ(reserved(), int64_t{30 * kMiB});
  scope.leave();
  EXPECT_EQ(reserved(), 0);
}

TEST_F(DeviceAllocatorPoolTest, AnEmptyPoolEndsWithoutWaiting) {
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr outside = allocator().allocate(512);
  Gate gate;
  gate.hold(user.handle());
  allocator().recordStream(outside, user);
  drop(outside);
  Background thread([] { OpenRegMemPool::make(); });
  thread.join();
  EXPECT_EQ(stats().num_sync_all_streams, 0);
  gate.open();
}

TEST_F(DeviceAllocatorPoolTest, APoolsEndWaitsForRecordedStreams) {
  const OpenRegStream user = getStreamFromPool();
  Pool pool = OpenRegMemPool::make();
  c10::DataPtr block = allocate_in(pool, 30 * kMiB);
  Gate gate;
  gate.hold(user.handle());
  allocator().recordStream(block, user);
  drop(block);
  Background thread([&] { pool.reset(); });
  thread.settle();
  EXPECT_FALSE(thread.done());
  EXPECT_EQ(current(stats().active), 1) << "the lock is free meanwhile";
  gate.open();
  thread.join();
  EXPECT_EQ(reserved(), 0);
}

TEST_F(DeviceAllocatorPoolTest, MemoryIsTakenFromDeadPoolsAndFromOutside) {
  const size_t most = allocator().getMemoryInfo(0).second / 16 * 10;
  Pool pool = OpenRegMemPool::make();
  c10::DataPtr block = allocate_in(pool, most);
  drop(block);
  EXPECT_THROW(allocator().allocate(most), c10::OutOfMemoryError);
  block = allocate_in(pool, most);
  pool.reset();
  drop(block);
  EXPECT_EQ(pool_of(allocator().allocate(most)), kNone);
  const Pool second = OpenRegMemPool::make();
  EXPECT_EQ(pool_of(allocate_in(second, most)), second->id());
  EXPECT_EQ(stats().num_ooms, 1);
  expect_consistent();
}

TEST_F(DeviceAllocatorPoolTest, APoolForEmergenciesIsTheLastResort) {
  const size_t most = allocator().getMemoryInfo(0).second / 16 * 10;
  const Pool pool = OpenRegMemPool::make({.use_on_oom = true});
  const Pool other = OpenRegMemPool::make();
  void* const inside = allocate_in(pool, most).get();
  EXPECT_EQ(pool_of(allocator().allocate(512)), kNone);
  c10::DataPtr outside = allocator().allocate(most);
  EXPECT_EQ(outside.get(), inside);
  EXPECT_EQ(pool_of(outside), pool->id());
  expect_consistent();
  EXPECT_THROW(allocator().allocate(most), c10::OutOfMemoryError);
  drop(outside);
  EXPECT_THROW(allocate_in(other, most), c10::OutOfMemoryError);
  EXPECT_EQ(allocate_in(pool, most).get(), inside);
}

TEST_F(DeviceAllocatorPoolTest, BlocksAreNotCutIfThePoolSaysSo) {
  const Pool pool = OpenRegMemPool::make({.no_split = true});
  const c10::DataPtr a = allocate_in(pool, 512);
  const c10::DataPtr b = allocate_in(pool, 3 * kMiB);
  EXPECT_THAT(layout(a), ::testing::ElementsAre(int64_t{2 * kMiB}));
  EXPECT_THAT(layout(b), ::testing::ElementsAre(int64_t{20 * kMiB}));
  expect_consistent();
}

TEST_F(DeviceAllocatorPoolTest, PiecesOfAllPoolsAreCountedTogether) {
  const Pool pool = OpenRegMemPool::make();
  const c10::DataPtr a = allocate_in(pool, 512);
  const c10::DataPtr b = allocator().allocate(1024);
  EXPECT_EQ(current(stats().inactive_split), 2);
  EXPECT_EQ(current(stats().inactive_split_bytes), int64_t{4 * kMiB - 1536});
  expect_consistent();
}

TEST_F(DeviceAllocatorPoolTest, StressThreadsInTheirOwnAndInACommonPool) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  const Pool common = OpenRegMemPool::make();
  const auto work = [&](int seed) {
    std::vector<c10::DataPtr> blocks;
    for (int i = 0; i < kRounds; ++i) {
      const Pool own = OpenRegMemPool::make();
      const auto size = static_cast<size_t>((seed * 7 + i * 13) % 40 + 1) * 512;
      blocks.push_back(allocate_in(own, size));
      blocks.push_back(allocate_in(common, size));
      blocks.push_back(allocator().allocate(size));
      if (i % 8 == 7) blocks.clear();
      if (i % 32 == 31) allocator().emptyCache();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  expect_consistent();
  for (const SegmentInfo& segment : allocator().snapshot().segments) {
    EXPECT_EQ(segment.allocated_size, 0u);
  }
  EXPECT_EQ(common->use_count(), 1);
}

}  // namespace

}  // namespace torch_openreg::test
