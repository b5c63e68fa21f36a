// Resets a cache together with its device.
#include <utility>
#include <vector>

#include "backend/runtime/memory/device_cache.h"

namespace torch_openreg::memory {

void DeviceCache::forget() {
  DeadContexts dead;
  std::vector<PendingFrees::Wait> waits;
  const std::lock_guard pressure(pressure_mutex_);
  const Lock lock(mutex_);
  // Other devices may still use the blocks, but there is nothing to keep.
  waits = pending_.take();
  for (const PendingFrees::Wait& wait : waits) {
    if (--wait.block->events == 0) complete(wait.block, dead);
  }
  pending_.forget_events(device_);
  note_pending();
  for (auto& [base, segment] : segments_) {
    retire(*segment, dead);
    if (segment->users == 0) continue;
    const Segment* const key = segment.get();
    retired_.emplace(key, std::move(segment));
  }
  segments_.clear();
  forget_dead_pools();
  capacity_ = 0;
}

void DeviceCache::retire(Segment& segment, DeadContexts& dead) {
  segment.pool->forget_free(segment);
  count_splits(*segment.pool);
  for (const Block* block = segment.first; block != nullptr;
       block = block->next) {
    if (block->state != Block::State::kAllocated) continue;
    uncount_allocated(*block);
    uncount_active(*block);
    ++segment.users;
  }
  count_segment(segment, false);
  note(TraceEntry::SEGMENT_FREE, about(segment), segment.context, dead);
  if (segment.context) dead.push_back(std::move(segment.context));
  segment.retired.store(true, std::memory_order_release);
}

void DeviceCache::end_use(const Block& block) {
  Segment& segment = *block.segment;
  if (--segment.users == 0) retired_.erase(&segment);
}

}  // namespace torch_openreg::memory
