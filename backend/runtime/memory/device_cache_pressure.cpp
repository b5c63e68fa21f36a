// The cache when the device has no memory left: it gives up unused memory, a
// little more each time, and raises an error if that was in vain.
#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/memory/device_cache.h"
#include "backend/runtime/memory/size_policy.h"
#include "openreg/memory.h"

namespace torch_openreg::memory {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::for_each_selected_stat_type;
using c10::CachingAllocator::format_size;
using c10::CachingAllocator::StatType;

namespace {

constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);

constexpr auto kUnlimited = std::numeric_limits<size_t>::max();

// Waits for the work of the device.
void free_segment(const Segment& segment) {
  const orError_t code = orFree(segment.base);
  if (code == orErrorInvalidValue || code == orErrorDeviceLost) {
    orGetLastError();  // the memory has gone with the device
  } else if (code != orSuccess) {
    detail::warn_error(code, "orFree");
  }
}

}  // namespace

Block* DeviceCache::allocate_under_pressure(Request& request, Lock& lock) {
  lock.unlock();
  const std::lock_guard pressure(pressure_mutex_);
  lock.lock();
  // While this thread waited, another one may have made room.
  if (Block* block = request.pool->take(request.size, request.stream.id())) {
    return block;
  }
  collect_garbage(request, lock);
  if (Block* block = try_again(request)) return block;
  give_up_oversize(request, lock);
  if (Block* block = try_again(request)) return block;
  ++stats_.num_alloc_retries;
  give_up_unused(request.context, request.dead, lock);
  if (Block* block = try_again(request)) return block;
  if (Block* block = take_on_oom(request)) return block;
  out_of_memory(request, lock);
}

// Blocks that others have released meanwhile are as good as a new segment.
Block* DeviceCache::try_again(Request& request) {
  Block* const block = request.pool->take(request.size, request.stream.id());
  return block != nullptr ? block : new_segment(request);
}

// From a memory pool that is there for this; others keep theirs to themselves.
// One pool never helps another.
Block* DeviceCache::take_on_oom(const Request& request) {
  if (!request.owner->is_default()) return nullptr;
  for (auto& [id, pair] : pools_) {
    if (!pair.use_on_oom) continue;
    BlockPool& pool = pair.of_kind(request.pool->large());
    if (Block* block = pool.take(request.size, request.stream.id())) {
      return block;
    }
  }
  return nullptr;
}

bool DeviceCache::is_garbage_due() {
  const double threshold =
      AcceleratorAllocatorConfig::garbage_collection_threshold();
  if (C10_LIKELY(threshold <= 0)) return false;
  return static_cast<double>(stats_.reserved_bytes[kAll].current) >
         threshold * static_cast<double>(allowed());
}

// Gives up large segments that were not used for long, until the reserved bytes
// are below the threshold: in each round those of at least the average age.
void DeviceCache::collect_garbage(Request& request, Lock& lock) {
  if (!is_garbage_due()) return;
  const double limit =
      AcceleratorAllocatorConfig::garbage_collection_threshold() *
      static_cast<double>(allowed());
  double reserved = static_cast<double>(stats_.reserved_bytes[kAll].current);
  const BlockPool& pool = default_.large;
  std::vector<Segment*> candidates = pool.unused();
  std::vector<Segment*> chosen;
  while (reserved > limit && !candidates.empty()) {
    int64_t total_age = 0;
    for (const Segment* segment : candidates) {
      total_age += pool.age(segment->first);
    }
    const auto count = static_cast<int64_t>(candidates.size());
    std::erase_if(candidates, [&](Segment* segment) {
      const bool old = pool.age(segment->first) * count >= total_age;
      if (!old || reserved <= limit) return false;
      reserved -= static_cast<double>(segment->size);
      chosen.push_back(segment);
      return true;
    });
  }
  give_up(chosen, request.context, request.dead, lock);
}

// Blocks that are too large to be cut can't serve anybody else.
void DeviceCache::give_up_oversize(Request& request, Lock& lock) {
  const size_t limit = AcceleratorAllocatorConfig::max_split_size();
  if (limit == kUnlimited) return;
  const size_t wanted = std::max(request.size, limit);
  std::vector<Segment*> chosen;
  size_t bytes = 0;
  for (Segment* segment : default_.large.unused(request.stream.id(), limit)) {
    if (bytes >= wanted) break;
    chosen.push_back(segment);
    bytes += segment->size;
  }
  if (bytes >= wanted) give_up(chosen, request.context, request.dead, lock);
}

void DeviceCache::give_up_unused(const Context& context, DeadContexts& dead,
                                 Lock& lock) {
  await_pending(dead, lock);
  std::vector<PoolPair*> pairs{&default_};
  for (auto& [id, pair] : pools_) {
    if (pair.dead()) pairs.push_back(&pair);
  }
  give_up_unused(pairs, context, dead, lock);
}

void DeviceCache::give_up_unused(const std::vector<PoolPair*>& pairs,
                                 const Context& context, DeadContexts& dead,
                                 Lock& lock) {
  std::vector<Segment*> unused;
  for (PoolPair* const pair : pairs) {
    for (const BlockPool* pool : {&pair->small, &pair->large}) {
      const std::vector<Segment*> found = pool->unused();
      unused.insert(unused.end(), found.begin(), found.end());
    }
  }
  give_up(unused, context, dead, lock);
  forget_dead_pools();
}

void DeviceCache::give_up(const std::vector<Segment*>& segments,
                          const Context& context, DeadContexts& dead,
                          Lock& lock) {
  if (segments.empty()) return;
  const std::vector<std::unique_ptr<Segment>> removed =
      remove(segments, context, dead);
  lock.unlock();
  for (const std::unique_ptr<Segment>& segment : removed) {
    free_segment(*segment);
  }
  lock.lock();
}

std::vector<std::unique_ptr<Segment>> DeviceCache::remove(
    const std::vector<Segment*>& segments, const Context& context,
    DeadContexts& dead) {
  std::vector<std::unique_ptr<Segment>> removed;
  for (Segment* segment : segments) {
    count_segment(*segment, false);
    note(TraceEntry::SEGMENT_FREE, about(*segment), context, dead);
    if (segment->context) dead.push_back(std::move(segment->context));
    segment->pool->remove_unused(segment);
    removed.push_back(std::move(segments_.extract(segment->base).mapped()));
  }
  return removed;
}

void DeviceCache::await_pending(DeadContexts& dead, Lock& lock) {
  ++stats_.num_sync_all_streams;
  std::vector<PendingFrees::Wait> waits = pending_.take();
  lock.unlock();
  try {
    PendingFrees::await(waits);
  } catch (...) {
    lock.lock();
    pending_.put_back(std::move(waits));
    throw;
  }
  lock.lock();
  pending_.finish(std::move(waits),
                  [&](Block* block) { complete(block, dead); });
  note_pending();
}

void DeviceCache::empty() {
  const Context context = history_.gather(RecordContext::ALL);
  DeadContexts dead;
  const std::lock_guard pressure(pressure_mutex_);
  Lock lock(mutex_);
  if (!segments_.empty()) give_up_unused(context, dead, lock);
}

void DeviceCache::empty(const c10::MempoolId_t& pool) {
  const Context context = history_.gather(RecordContext::ALL);
  DeadContexts dead;
  const std::lock_guard pressure(pressure_mutex_);
  Lock lock(mutex_);
  const auto has_segments = [&] {
    const auto found = pools_.find(pool);
    return found != pools_.end() && found->second.segments != 0;
  };
  if (!has_segments()) return;
  await_pending(dead, lock);
  // The lock was free: another thread may have forgotten the pool.
  if (has_segments()) give_up_unused({&pools_.at(pool)}, context, dead, lock);
}

void DeviceCache::out_of_memory(Request& request, Lock& lock) {
  ++stats_.num_ooms;
  size_t free = 0;
  size_t total = 0;
  {
    const DeviceScope scope(device_);
    OPENREG_CHECK(orMemGetInfo(&free, &total));
  }
  const auto allocated =
      static_cast<size_t>(stats_.allocated_bytes[kAll].current);
  const auto reserved =
      static_cast<size_t>(stats_.reserved_bytes[kAll].current);
  const std::string limit =
      fraction() < 1.0 ? format_size(allowed()) + " allowed; " : "";
  note(TraceEntry::OOM,
       {reinterpret_cast<void*>(free), request.size, request.stream.handle(),
        request.owner->id},
       request.context, request.dead);
  lock.unlock();
  c10::reportOutOfMemoryToProfiler(
      static_cast<int64_t>(request.size), allocated, reserved,
      c10::Device(c10::DeviceType::PrivateUse1, device_));
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "OpenReg out of memory. Tried to allocate ",
      format_size(request.requested), ". Device ", static_cast<int>(device_),
      " has a total capacity of ", format_size(total), " of which ",
      format_size(free), " is free. ", limit, "Of the allocated memory ",
      format_size(allocated), " is allocated by PyTorch, and ",
      format_size(reserved - allocated),
      " is reserved by PyTorch but unallocated. If reserved but unallocated "
      "memory is large, free tensors or call torch.openreg.empty_cache(); "
      "OPENREG_MEMORY sets the size of the simulated memory.");
}

}  // namespace torch_openreg::memory
