// The way of a block: out of the cache and back. What happens when there is no
// memory left is in device_cache_pressure.cpp, reports on the cache are in
// device_cache_report.cpp, what a reset does in device_cache_reset.cpp.
#include "backend/runtime/memory/device_cache.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <string>
#include <utility>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/memory/size_policy.h"
#include "openreg/memory.h"

namespace torch_openreg::memory {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::for_each_selected_stat_type;
using c10::CachingAllocator::StatType;

namespace {

constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);

}  // namespace

DeviceCache::DeviceCache(c10::DeviceIndex device,
                         const HistorySettings& history)
    : device_(device), history_(history) {}

PoolPair& DeviceCache::pair_of(const OpenRegMemPool* pool) {
  if (C10_LIKELY(pool == nullptr)) return default_;
  const auto found = pools_.find(pool->id());
  if (found != pools_.end()) return found->second;
  forget_dead_pools();
  return pools_.try_emplace(pool->id(), *pool).first->second;
}

void DeviceCache::forget_dead_pools() {
  std::erase_if(pools_, [](const auto& item) {
    return item.second.dead() && item.second.segments == 0;
  });
}

Block* DeviceCache::allocate(size_t requested, const OpenRegStream& stream,
                             const OpenRegMemPool* pool) {
  const size_t size = requested < kTooLarge ? block_size(requested) : requested;
  Request request{
      requested, size, stream, history_.gather(RecordContext::STATE), {}};
  Lock lock(mutex_);
  request.owner = &pair_of(pool);
  request.pool = &request.owner->of_kind(is_large(size));
  if (C10_UNLIKELY(requested >= kTooLarge)) out_of_memory(request, lock);
  if (!pending_.empty()) poll_pending(request.dead);
  Block* block = request.pool->take(size, stream.id());
  if (block == nullptr && !is_garbage_due()) {
    block = new_segment(request);
  }
  if (block == nullptr) block = allocate_under_pressure(request, lock);
  start(block, request);
  const Usage now = usage(block, 1);
  lock.unlock();
  report(now);
  return block;
}

Block* DeviceCache::take(size_t requested, const OpenRegStream& stream,
                         const OpenRegMemPool* pool, const Blocks& parked) {
  if (C10_UNLIKELY(requested >= kTooLarge)) return nullptr;
  const size_t size = block_size(requested);
  Request request{requested, size, stream, {}, {}};
  const std::lock_guard lock(mutex_);
  if (!pending_.empty()) return nullptr;
  request.owner = &pair_of(pool);
  request.pool = &request.owner->of_kind(is_large(size));
  Block* const block = request.pool->take(size, stream.id());
  if (block != nullptr) start(block, request, parked);
  return block;
}

void DeviceCache::release(Block* block) noexcept {
  Context context;
  try {
    context = history_.gather(RecordContext::ALL);
  } catch (...) {
    // A release without its context is better than none.
  }
  DeadContexts dead;
  std::string failure;
  Lock lock(mutex_);
  if (block->segment->retired.load(std::memory_order_relaxed)) {
    if (block->context) dead.push_back(std::move(block->context));
    end_use(*block);
    return;
  }
  uncount_allocated(*block);
  const Usage now = usage(block, -1);
  note(TraceEntry::FREE_REQUESTED, about(*block),
       context ? context : block->context, dead);
  if (block->other_users.empty()) {
    complete(block, dead);
  } else {
    block->state = Block::State::kPending;
    failure = pending_.add(block);
    note_pending();
  }
  lock.unlock();
  report(now);
  if (!failure.empty()) warn(failure);
}

void DeviceCache::uncount_allocated(const Block& block) {
  for_each_selected_stat_type(
      block.segment->pool->stat_types(), [&](size_t type) {
        stats_.allocation[type].decrease(1);
        stats_.allocated_bytes[type].decrease(block.size);
      });
  if (block.oversize) stats_.oversize_allocations.decrease(1);
}

void DeviceCache::uncount_active(const Block& block) {
  for_each_selected_stat_type(
      block.segment->pool->stat_types(), [&](size_t type) {
        stats_.active[type].decrease(1);
        stats_.active_bytes[type].decrease(block.size);
        stats_.requested_bytes[type].decrease(block.requested);
      });
}

void DeviceCache::record_stream(Block* block, const OpenRegStream& stream) {
  // The block's own stream keeps the order by itself.
  if (stream.id() == block->stream && stream.device_index() == device_) return;
  const std::lock_guard lock(mutex_);
  std::vector<OpenRegStream>& users = block->other_users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) {
    users.push_back(stream);
  }
}

void DeviceCache::start(Block* block, Request& request, const Blocks& parked) {
  block->state = Block::State::kAllocated;
  block->requested = request.requested;
  block->context = request.context;
  BlockPool& pool = *block->segment->pool;
  for_each_selected_stat_type(pool.stat_types(), [&](size_t type) {
    const bool is_of_large = type == static_cast<size_t>(StatType::LARGE_POOL);
    const Blocks aside = is_of_large ? Blocks() : parked;
    const auto add = [](c10::CachingAllocator::Stat& stat, size_t amount,
                        uint64_t parked_amount) {
      const int64_t peak = stat.peak;
      stat.increase(amount);
      stat.peak =
          std::max(peak, stat.current - static_cast<int64_t>(parked_amount));
    };
    add(stats_.allocation[type], 1, aside.count);
    add(stats_.allocated_bytes[type], block->size, aside.bytes);
    add(stats_.active[type], 1, aside.count);
    add(stats_.active_bytes[type], block->size, aside.bytes);
    add(stats_.requested_bytes[type], block->requested, aside.requested);
  });
  block->oversize = block->size >= AcceleratorAllocatorConfig::max_split_size();
  if (block->oversize) stats_.oversize_allocations.increase(1);
  count_splits(pool);
  note(TraceEntry::ALLOC, about(*block), request.context, request.dead);
}

void DeviceCache::complete(Block* block, DeadContexts& dead) {
  note(TraceEntry::FREE_COMPLETED, about(*block), block->context, dead);
  BlockPool& pool = *block->segment->pool;
  uncount_active(*block);
  if (block->context) dead.push_back(std::move(block->context));
  pool.give_back(block);
  count_splits(pool);
}

void DeviceCache::poll_pending(DeadContexts& dead) {
  pending_.poll([&](Block* block) { complete(block, dead); });
  note_pending();
}

// Brings the statistics to what the pools hold. One step whatever has happened
// in between, so that peaks and sums count results only.
void DeviceCache::count_splits(BlockPool& pool) {
  const auto apply = [](c10::CachingAllocator::Stat& stat, int64_t change) {
    if (change > 0) stat.increase(static_cast<size_t>(change));
    if (change < 0) stat.decrease(static_cast<size_t>(-change));
  };
  const BlockPool::Splits change = pool.take_split_change();
  for_each_selected_stat_type(pool.stat_types(), [&](size_t type) {
    apply(stats_.inactive_split[type], change.blocks);
    apply(stats_.inactive_split_bytes[type], change.bytes);
  });
}

void DeviceCache::count_segment(const Segment& segment, bool added) {
  const auto count = [added](c10::CachingAllocator::Stat& stat, size_t amount) {
    added ? stat.increase(amount) : stat.decrease(amount);
  };
  PoolPair& owner = *segment.owner;
  c10::CachingAllocator::StatArray* const of_owner =
      owner.is_default() ? nullptr
                         : &stats_.reserved_bytes_by_private_pools[owner.id];
  for_each_selected_stat_type(segment.pool->stat_types(), [&](size_t type) {
    count(stats_.segment[type], 1);
    count(stats_.reserved_bytes[type], segment.size);
    if (of_owner != nullptr) count((*of_owner)[type], segment.size);
  });
  if (segment.oversize) count(stats_.oversize_segments, 1);
  added ? ++owner.segments : --owner.segments;
  added ? ++stats_.num_device_alloc : ++stats_.num_device_free;
}

DeviceCache::Subject DeviceCache::about(const Block& block) {
  return {block.ptr, block.requested, block.segment->handle,
          block.segment->owner->id};
}

DeviceCache::Subject DeviceCache::about(const Segment& segment) {
  return {segment.base, segment.size, segment.handle, segment.owner->id};
}

void DeviceCache::note(TraceEntry::Action action, const Subject& subject,
                       const Context& context, DeadContexts& dead) {
  if (C10_LIKELY(!history_.enabled())) return;
  trace_.add(TraceEntry(action, device_,
                        reinterpret_cast<size_t>(subject.address), subject.size,
                        subject.stream, subject.pool, c10::getApproximateTime(),
                        history_.keeps_contexts() ? context : nullptr),
             dead);
}

Block* DeviceCache::new_segment(Request& request) {
  const size_t size = segment_size(request.size);
  const orStream_t handle = request.stream.handle();
  char* const base = allocate_segment(size);
  if (base == nullptr) return nullptr;
  auto segment = std::make_unique<Segment>();
  segment->cache = this;
  segment->owner = request.owner;
  segment->pool = request.pool;
  segment->base = base;
  segment->size = size;
  segment->stream = request.stream.id();
  segment->handle = handle;
  segment->oversize = size >= AcceleratorAllocatorConfig::max_split_size();
  segment->context = request.context;
  count_segment(*segment, true);
  note(TraceEntry::SEGMENT_ALLOC, about(*segment), request.context,
       request.dead);
  Block* const block = request.pool->take_from(*segment, request.size);
  segments_.emplace(base, std::move(segment));
  return block;
}

// Null if there is not enough memory.
char* DeviceCache::allocate_segment(size_t size) {
  const auto reserved =
      static_cast<size_t>(stats_.reserved_bytes[kAll].current);
  if (fraction() < 1.0 && reserved + size > allowed()) return nullptr;
  const DeviceScope scope(device_);
  void* base = nullptr;
  const orError_t code = orMalloc(&base, size);
  if (code == orErrorOutOfMemory) {
    orGetLastError();
    return nullptr;
  }
  if (code != orSuccess) {
    detail::throw_error(code, "orMalloc",
                        {__func__, __FILE__, static_cast<uint32_t>(__LINE__)});
  }
  set_primary_context(device_);
  return static_cast<char*>(base);
}

size_t DeviceCache::allowed() {
  if (capacity_ == 0) {
    const DeviceScope scope(device_);
    OPENREG_CHECK(orMemGetInfo(nullptr, &capacity_));
  }
  return static_cast<size_t>(fraction() * static_cast<double>(capacity_));
}

DeviceCache::Usage DeviceCache::usage(const Block* block, int64_t sign) const {
  return {block->ptr, sign * static_cast<int64_t>(block->size),
          static_cast<size_t>(stats_.allocated_bytes[kAll].current),
          static_cast<size_t>(stats_.reserved_bytes[kAll].current)};
}

void DeviceCache::report(const Usage& usage) const {
  c10::reportMemoryUsageToProfiler(
      usage.ptr, usage.change, usage.allocated, usage.reserved,
      c10::Device(c10::DeviceType::PrivateUse1, device_));
}

}  // namespace torch_openreg::memory
