// Reports on a cache: statistics, segments, history.
#include <c10/core/AllocatorConfig.h>

#include <utility>

#include "backend/runtime/memory/device_cache.h"

namespace torch_openreg::memory {

using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;

namespace {

// Calls `each` for every Stat.
template <typename Function>
void for_each_stat(DeviceStats& stats, Function each) {
  for (StatArray* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split,
        &stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
        &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (c10::CachingAllocator::Stat& stat : *array) each(stat);
  }
  for (auto& [pool, array] : stats.reserved_bytes_by_private_pools) {
    for (c10::CachingAllocator::Stat& stat : array) each(stat);
  }
  each(stats.oversize_allocations);
  each(stats.oversize_segments);
}

BlockInfo describe(const Block& block, const BlockPool& pool) {
  BlockInfo info;
  info.size = block.size;
  info.requested_size = block.requested;
  info.allocated = block.state == Block::State::kAllocated;
  info.active = block.state != Block::State::kFree;
  if (!info.active) info.gc_counter = static_cast<int32_t>(pool.age(&block));
  info.context_when_allocated = block.context;
  return info;
}

SegmentInfo describe(const Segment& segment, c10::DeviceIndex device) {
  SegmentInfo info;
  info.device = device;
  info.address = reinterpret_cast<size_t>(segment.base);
  info.total_size = segment.size;
  info.stream = segment.handle;
  info.is_large = segment.pool->large();
  info.owner_private_pool_id = segment.owner->id;
  info.context_when_allocated = segment.context;
  for (const Block* block = segment.first; block; block = block->next) {
    const BlockInfo& part =
        info.blocks.emplace_back(describe(*block, *segment.pool));
    if (part.allocated) info.allocated_size += part.size;
    if (part.active) info.active_size += part.size;
    info.requested_size += part.requested_size;
  }
  return info;
}

}  // namespace

DeviceStats DeviceCache::stats() const {
  const std::lock_guard lock(mutex_);
  DeviceStats result = stats_;
  result.max_split_size = static_cast<int64_t>(
      c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  return result;
}

void DeviceCache::add_reuses(const Blocks& reuses) {
  const auto add = [](c10::CachingAllocator::Stat& stat, uint64_t amount) {
    stat.allocated += static_cast<int64_t>(amount);
    stat.freed += static_cast<int64_t>(amount);
  };
  const std::lock_guard lock(mutex_);
  const BlockPool& pool = default_.of_kind(/*is_large=*/false);
  c10::CachingAllocator::for_each_selected_stat_type(
      pool.stat_types(), [&](size_t type) {
        add(stats_.allocation[type], reuses.count);
        add(stats_.active[type], reuses.count);
        add(stats_.allocated_bytes[type], reuses.bytes);
        add(stats_.active_bytes[type], reuses.bytes);
        add(stats_.requested_bytes[type], reuses.requested);
      });
}

void DeviceCache::reset_accumulated_stats() {
  const std::lock_guard lock(mutex_);
  for_each_stat(stats_, [](auto& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

void DeviceCache::reset_peak_stats() {
  const std::lock_guard lock(mutex_);
  for_each_stat(stats_, [](auto& stat) { stat.reset_peak(); });
}

void DeviceCache::restart_trace(size_t max_entries, bool keep) {
  std::vector<TraceEntry> forgotten;
  const std::lock_guard lock(mutex_);
  forgotten = trace_.restart(max_entries, keep);
}

DeviceCache::Snapshot DeviceCache::snapshot() {
  const Context context = history_.gather(RecordContext::ALL);
  DeadContexts dead;
  Snapshot result;
  const std::lock_guard lock(mutex_);
  for (const auto& [base, segment] : segments_) {
    result.segments.push_back(describe(*segment, device_));
  }
  result.trace = trace_.entries();
  // A snapshot shows those before it, as CUDA's does.
  note(TraceEntry::SNAPSHOT, {}, context, dead);
  return result;
}

}  // namespace torch_openreg::memory
