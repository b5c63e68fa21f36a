// Random work on many streams and threads: no two blocks overlap, none is
// reused too early, and the statistics add up at every step.
#include <map>
#include <mutex>
#include <thread>

#include "tests/backend/support/allocator.h"
#include "tests/backend/support/checked_blocks.h"

namespace torch_openreg::test {

namespace {

using openreg::test::stress_scale;

class DeviceAllocatorStressTest : public AllocatorTest {
 protected:
  void SetUp() override {
    AllocatorTest::SetUp();
    // The default stream, and four that do not wait for it.
    streams_ = {getDefaultOpenRegStream()};
    while (streams_.size() < 5) streams_.push_back(getStreamFromPool());
  }
  const OpenRegStream& any_stream(BlockChecker& checker) {
    return streams_[checker.random(streams_.size())];
  }

  std::vector<OpenRegStream> streams_;
};

// What the allocator must say, kept in the plainest way.
class Model {
 public:
  void add(const CheckedBlock& block) {
    const auto before = allocated_;
    allocated_ = current(stats().allocated_bytes);
    // The statistics tell the block's size, which may waste up to 1 MiB.
    const auto size = static_cast<size_t>(allocated_ - before);
    const size_t rounded = (block.size + 511) / 512 * 512;
    EXPECT_GE(size, rounded);
    EXPECT_LE(size, rounded <= kMiB ? rounded : rounded + kMiB);
    const auto begin = reinterpret_cast<uintptr_t>(block.ptr.get());
    const auto after = blocks_.lower_bound(begin);
    EXPECT_TRUE(after == blocks_.end() || begin + size <= after->first)
        << "overlaps the next block";
    EXPECT_TRUE(after == blocks_.begin() ||
                std::prev(after)->first + std::prev(after)->second <= begin)
        << "overlaps the block before";
    blocks_[begin] = size;
    requested_ += static_cast<int64_t>(block.size);
  }

  void remove(const CheckedBlock& block) {
    const auto found =
        blocks_.find(reinterpret_cast<uintptr_t>(block.ptr.get()));
    ASSERT_NE(found, blocks_.end());
    allocated_ -= static_cast<int64_t>(found->second);
    requested_ -= static_cast<int64_t>(block.size);
    blocks_.erase(found);
  }

  // Blocks that other streams use are counted as active until they are done,
  // which is up to the device.
  void expect_agrees() const {
    const DeviceStats now = stats();
    EXPECT_EQ(current(now.allocation), static_cast<int64_t>(blocks_.size()));
    EXPECT_EQ(current(now.allocated_bytes), allocated_);
    EXPECT_GE(current(now.requested_bytes), requested_);
    EXPECT_GE(current(now.active), current(now.allocation));
    EXPECT_GE(current(now.active_bytes), allocated_);
    EXPECT_GE(current(now.reserved_bytes), current(now.active_bytes));
    for (const auto& stat : {now.allocated_bytes[0], now.active_bytes[0],
                             now.reserved_bytes[0], now.requested_bytes[0]}) {
      EXPECT_EQ(stat.current, stat.allocated - stat.freed);
      EXPECT_GE(stat.peak, stat.current);
    }
    expect_consistent();
  }

 private:
  std::map<uintptr_t, size_t> blocks_;  // sizes by address
  int64_t allocated_ = 0;
  int64_t requested_ = 0;
};

TEST_F(DeviceAllocatorStressTest, StatisticsAddUpAtEveryStep) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    BlockChecker checker(seed);
    Model model;
    std::vector<CheckedBlock> blocks;
    for (int step = 0; step < 1500 * stress_scale(); ++step) {
      if (checker.random(200) == 0) allocator().emptyCache();
      if (blocks.empty() || (blocks.size() < 60 && checker.random(2) == 0)) {
        blocks.push_back(
            checker.make(checker.random_size(12 * kMiB), any_stream(checker)));
        model.add(blocks.back());
      } else {
        std::swap(blocks[checker.random(blocks.size())], blocks.back());
        model.remove(blocks.back());
        checker.release(std::move(blocks.back()), any_stream(checker),
                        checker.random(4) == 0);
        blocks.pop_back();
      }
      model.expect_agrees();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", step " << step;
    }
  }
}

// Blocks on their way from one thread to another.
class Exchange {
 public:
  // Leaves `block` and takes another one, if there is one.
  CheckedBlock swap(CheckedBlock block) {
    const std::lock_guard lock(mutex_);
    std::swap(block, blocks_[next_++ % blocks_.size()]);
    return block;
  }

 private:
  std::mutex mutex_;
  size_t next_ = 0;
  std::array<CheckedBlock, 16> blocks_;
};

class Walker {
 public:
  Walker(unsigned seed, const std::vector<OpenRegStream>& streams,
         Exchange& exchange)
      : checker_(seed), streams_(streams), exchange_(exchange) {}

  void step(size_t largest) {
    if (checker_.random(500) == 0) allocator().emptyCache();
    if (checker_.random(100) == 0) stats();
    if (blocks_.empty() || (blocks_.size() < 40 && checker_.random(2) == 0)) {
      make(checker_.random_size(largest));
    } else {
      std::swap(blocks_[checker_.random(blocks_.size())], blocks_.back());
      release_last();
    }
  }

  int out_of_memory() const { return out_of_memory_; }

 private:
  const OpenRegStream& any_stream() {
    return streams_[checker_.random(streams_.size())];
  }

  void make(size_t size) {
    try {
      CheckedBlock block = checker_.make(size, any_stream());
      if (checker_.random(5) == 0) block = exchange_.swap(std::move(block));
      if (block.ptr) blocks_.push_back(std::move(block));
    } catch (const c10::OutOfMemoryError&) {
      ++out_of_memory_;
      for (size_t i = blocks_.size() / 2; i > 0; --i) release_last();
    }
  }

  void release_last() {
    checker_.release(std::move(blocks_.back()), any_stream(),
                     checker_.random(4) == 0);
    blocks_.pop_back();
  }

  BlockChecker checker_;
  const std::vector<OpenRegStream>& streams_;
  Exchange& exchange_;
  std::vector<CheckedBlock> blocks_;
  int out_of_memory_ = 0;
};

// Returns how often a thread found no memory.
int walk(const std::vector<OpenRegStream>& streams, size_t largest, int steps) {
  Exchange exchange;
  std::atomic<int> out_of_memory{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      Walker walker(seed, streams, exchange);
      for (int step = 0; step < steps; ++step) walker.step(largest);
      out_of_memory += walker.out_of_memory();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out_of_memory;
}

void expect_nothing_left() {
  synchronize_device(0);
  allocator().emptyCache();
  const DeviceStats end = stats();
  EXPECT_EQ(current(end.reserved_bytes), 0);
  for (const auto& stat :
       {end.allocation[0], end.allocated_bytes[0], end.active_bytes[0],
        end.requested_bytes[0], end.inactive_split_bytes[0]}) {
    EXPECT_EQ(stat.current, 0);
    EXPECT_EQ(stat.allocated, stat.freed);
  }
  EXPECT_EQ(end.num_device_alloc, end.num_device_free);
  expect_consistent();
}

TEST_F(DeviceAllocatorStressTest, ThreadsAndStreamsKeepTheirMemoryApart) {
  walk(streams_, 12 * kMiB, 3000 * stress_scale());
  expect_nothing_left();
}

TEST_F(DeviceAllocatorStressTest, ThreadsThatRunOutOfMemoryGoOn) {
  const auto total = static_cast<double>(allocator().getMemoryInfo(0).second);
  allocator().set_memory_fraction(100.0 * kMiB / total, 0);
  EXPECT_GT(walk(streams_, 24 * kMiB, 1000 * stress_scale()), 0);
  EXPECT_GT(stats().num_ooms, 0);
  expect_nothing_left();
}

}  // namespace

}  // namespace torch_openreg::test
