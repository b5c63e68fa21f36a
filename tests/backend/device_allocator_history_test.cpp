// Snapshots and the history of actions.
#include <ctime>

#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;
using ::testing::ElementsAre;

// Contexts that ask the allocator when they are made and when they end, as a
// context that needs the GIL must be able to: with its lock held they would
// wait for themselves.
struct TestContext : c10::GatheredContext {
  TestContext() {
    ++alive;
    stats();
  }
  ~TestContext() override {
    --alive;
    stats();
  }
  static int alive;
};
int TestContext::alive = 0;

std::shared_ptr<c10::GatheredContext> make_context() {
  return std::make_shared<TestContext>();
}

class DeviceAllocatorHistoryTest : public AllocatorTest {
 protected:
  void record(RecordContext when, size_t max_entries = 1000) {
    allocator().record_history(true, make_context, max_entries, when, false);
  }
  std::vector<TraceEntry> trace() { return allocator().snapshot().traces[0]; }
  std::vector<TraceEntry::Action> actions() { return actions(trace()); }
  std::vector<TraceEntry::Action> actions(
      const std::vector<TraceEntry>& entries) {
    std::vector<TraceEntry::Action> result;
    for (const TraceEntry& entry : entries) result.push_back(entry.action_);
    return result;
  }
  void TearDown() override {
    AllocatorTest::TearDown();
    EXPECT_EQ(TestContext::alive, 0);
  }
};

TEST_F(DeviceAllocatorHistoryTest, ASnapshotDescribesEverySegment) {
  const OpenRegStream stream = getStreamFromPool();
  const c10::DataPtr small = allocator().allocate(100);
  const c10::DataPtr large = allocate_on(stream, 3 * kMiB);
  c10::DataPtr pending = allocate_on(stream, 2 * kMiB);
  const OpenRegStream user = getStreamFromPool();
  Gate gate;
  gate.hold(user.handle());
  allocator().recordStream(pending, user);
  drop(pending);
  const MemorySnapshot snapshot = allocator().snapshot();
  ASSERT_EQ(snapshot.segments.size(), 2u);
  EXPECT_LT(snapshot.segments[0].address, snapshot.segments[1].address);
  const SegmentInfo segment = segment_of(large);
  EXPECT_EQ(segment.device, 0);
  EXPECT_EQ(segment.address, reinterpret_cast<size_t>(large.get()));
  EXPECT_EQ(segment.total_size, 20 * kMiB);
  EXPECT_EQ(segment.allocated_size, 3 * kMiB);
  EXPECT_EQ(segment.active_size, 5 * kMiB);
  EXPECT_EQ(segment.requested_size, 5 * kMiB);
  EXPECT_EQ(segment.stream, stream.handle());
  EXPECT_TRUE(segment.is_large);
  EXPECT_FALSE(segment.is_expandable);
  ASSERT_EQ(segment.blocks.size(), 3u);
  EXPECT_TRUE(segment.blocks[0].allocated && segment.blocks[0].active);
  EXPECT_TRUE(!segment.blocks[1].allocated && segment.blocks[1].active);
  EXPECT_TRUE(!segment.blocks[2].allocated && !segment.blocks[2].active);
  EXPECT_EQ(segment_of(small).blocks[0].requested_size, 100u);
  EXPECT_EQ(segment_of(small).stream, nullptr);
  gate.open();
  user.synchronize();
}

TEST_F(DeviceAllocatorHistoryTest, NothingIsKeptUnlessAskedFor) {
  EXPECT_FALSE(allocator().is_recording_history());
  allocator().allocate(100);
  EXPECT_TRUE(trace().empty());
  EXPECT_EQ(allocator().snapshot().traces.size(),
            static_cast<size_t>(device_count()));
}

TEST_F(DeviceAllocatorHistoryTest, EveryActionIsKeptInOrder) {
  record(RecordContext::NEVER);
  EXPECT_TRUE(allocator().is_recording_history());
  c10::DataPtr block = allocator().allocate(100);
  const auto address = reinterpret_cast<size_t>(block.get());
  drop(block);
  allocator().emptyCache();
  oom_message(size_t{1} << 50);
  const std::vector<TraceEntry> entries = trace();
  ASSERT_THAT(
      actions(entries),
      ElementsAre(TraceEntry::SEGMENT_ALLOC, TraceEntry::ALLOC,
                  TraceEntry::FREE_REQUESTED, TraceEntry::FREE_COMPLETED,
                  TraceEntry::SEGMENT_FREE, TraceEntry::OOM));
  EXPECT_EQ(actions().back(), TraceEntry::SNAPSHOT) << "the one above";
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(entries[i].addr_, address);
    const bool of_segment = i == 0 || i == 4;
    EXPECT_EQ(entries[i].size_, of_segment ? 2 * kMiB : 100);
  }
  EXPECT_EQ(entries[5].addr_, allocator().getMemoryInfo(0).first);
  EXPECT_EQ(entries[5].size_, size_t{1} << 50);
  allocator().record_history(false, nullptr, 0, RecordContext::NEVER, false);
  EXPECT_FALSE(allocator().is_recording_history());
  EXPECT_TRUE(trace().empty());
}

TEST_F(DeviceAllocatorHistoryTest, TimesAreMicrosecondsSince1970) {
  record(RecordContext::NEVER);
  allocator().allocate(100);
  allocator().allocate(100);
  const std::vector<TraceEntry> entries = trace();
  const auto now = static_cast<int64_t>(std::time(nullptr)) * 1000000;
  EXPECT_NEAR(static_cast<double>(entries[0].time_.t_),
              static_cast<double>(now), 10e6);
  for (size_t i = 1; i < entries.size(); ++i) {
    EXPECT_GE(entries[i].time_.t_, entries[i - 1].time_.t_);
  }
}

TEST_F(DeviceAllocatorHistoryTest, ADelayedReleaseCompletesLater) {
  record(RecordContext::NEVER);
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr block = allocator().allocate(100);
  Gate gate;
  gate.hold(user.handle());
  allocator().recordStream(block, user);
  drop(block);
  EXPECT_EQ(actions().back(), TraceEntry::FREE_REQUESTED);
  gate.open();
  user.synchronize();
  allocator().emptyCache();
  EXPECT_EQ(actions().end()[-2], TraceEntry::FREE_COMPLETED);
}

TEST_F(DeviceAllocatorHistoryTest, TheLatestEntriesAreKept) {
  record(RecordContext::ALL, 3);
  for (int i = 0; i < 10; ++i) allocator().allocate(100);
  EXPECT_THAT(actions(),
              ElementsAre(TraceEntry::ALLOC, TraceEntry::FREE_REQUESTED,
                          TraceEntry::FREE_COMPLETED));
  // Fewer, and then more of them: the latest stay.
  allocator().record_history(true, make_context, 2, RecordContext::ALL, false);
  allocator().record_history(true, make_context, 9, RecordContext::ALL, false);
  allocator().allocate(100);
  EXPECT_THAT(actions(),
              ElementsAre(TraceEntry::FREE_COMPLETED, TraceEntry::SNAPSHOT,
                          TraceEntry::ALLOC, TraceEntry::FREE_REQUESTED,
                          TraceEntry::FREE_COMPLETED));
  allocator().record_history(true, make_context, 9, RecordContext::ALL, true);
  EXPECT_TRUE(trace().empty());
}

TEST_F(DeviceAllocatorHistoryTest, ContextsAreKeptAsFarAsAsked) {
  for (RecordContext when : {RecordContext::NEVER, RecordContext::STATE,
                             RecordContext::ALLOC, RecordContext::ALL}) {
    allocator().emptyCache();
    allocator().record_history(true, make_context, 100, when, true);
    const c10::DataPtr kept = allocator().allocate(100);
    allocator().allocate(200);
    const SegmentInfo segment = segment_of(kept);
    EXPECT_EQ(segment.blocks[0].context_when_allocated != nullptr,
              when >= RecordContext::STATE);
    EXPECT_EQ(segment.context_when_allocated != nullptr,
              when >= RecordContext::STATE);
    EXPECT_EQ(segment.blocks[1].context_when_allocated, nullptr);
    for (const TraceEntry& entry : trace()) {
      const bool expected = entry.action_ == TraceEntry::SNAPSHOT
                                ? when >= RecordContext::ALL
                                : when >= RecordContext::ALLOC;
      EXPECT_EQ(entry.context_ != nullptr, expected)
          << "action " << entry.action_ << " at level "
          << static_cast<int>(when);
    }
  }
}

TEST_F(DeviceAllocatorHistoryTest, ContextsEndWithoutTheLock) {
  record(RecordContext::ALL, 4);
  const OpenRegStream user = getStreamFromPool();
  for (int i = 0; i < 20; ++i) {
    c10::DataPtr block = allocator().allocate(100);
    allocator().recordStream(block, user);
    drop(block);
    user.synchronize();
    allocator().allocate(30 * kMiB);
    if (i % 5 == 0) allocator().emptyCache();
    if (i % 7 == 0) oom_message(size_t{1} << 50);
  }
  EXPECT_GT(TestContext::alive, 0);
  allocator().record_history(true, make_context, 2, RecordContext::ALL, false);
  allocator().record_history(false, nullptr, 0, RecordContext::NEVER, true);
}

}  // namespace

}  // namespace torch_openreg::test
