#include "backend/runtime/memory/parking.h"

#include <algorithm>

#include "backend/runtime/memory/device_cache.h"

namespace torch_openreg::memory {

namespace {

// Blocks may be freed when the thread's own objects are gone already: this is
// none, it stays readable.
thread_local bool has_left = false;

}  // namespace

Parking::Slot* Parking::slot() {
  if (C10_UNLIKELY(has_left)) return nullptr;
  static thread_local Place own;
  if (C10_LIKELY(own.owner == this)) return own.slot;
  // The first use of this thread; or a forked child, which has its own Parking
  // and leaves the parent's alone.
  own.slot = new Slot;
  own.owner = this;
  const std::lock_guard lock(mutex_);
  slots_.push_back(own.slot);
  threads_.store(slots_.size(), std::memory_order_relaxed);
  return own.slot;
}

Parking::Place::~Place() {
  has_left = true;
  if (owner != nullptr) owner->leave(slot);
}

void Parking::leave(Slot* slot) {
  std::vector<Block*> blocks;
  {
    const std::lock_guard lock(mutex_);
    take_all(*slot, blocks);
    tell(*slot);
    std::erase(slots_, slot);
    threads_.store(slots_.size(), std::memory_order_relaxed);
  }
  delete slot;
  release_all(blocks);
}

Block* Parking::take(const Request& request) {
  Slot* const own = slot();
  if (own == nullptr) return nullptr;
  size_t latest = kPlaces;
  for (size_t i = 0; i < kPlaces; ++i) {
    if (own->sizes[i] != request.size) continue;
    const Request& of = own->requests[i];
    if (of.stream != request.stream || of.cache != request.cache ||
        own->blocks[i].load(std::memory_order_relaxed) == nullptr) {
      continue;
    }
    if (latest == kPlaces || own->parked_at[i] > own->parked_at[latest]) {
      latest = i;
    }
  }
  if (latest == kPlaces) return nullptr;
  return own->blocks[latest].exchange(nullptr, std::memory_order_acq_rel);
}

Block* Parking::park(Block* block) {
  Slot* const own = slot();
  if (own == nullptr) return block;
  size_t place = 0;
  for (size_t i = 0; i < kPlaces; ++i) {
    if (own->blocks[i].load(std::memory_order_relaxed) == nullptr) {
      place = i;
      break;
    }
    if (own->parked_at[i] < own->parked_at[place]) place = i;
  }
  own->sizes[place] = block->requested;
  own->requests[place] = {block->segment->cache, block->requested,
                          block->stream};
  own->bytes[place] = block->size;
  own->parked_at[place] = ++own->clock;
  return own->blocks[place].exchange(block, std::memory_order_acq_rel);
}

void Parking::count_reuse(const Block* block) {
  Slot& own = *slot();  // it has taken a block from there
  DeviceCache* const cache = block->segment->cache;
  if (C10_UNLIKELY(own.cache.load(std::memory_order_relaxed) != cache)) {
    const std::lock_guard lock(mutex_);
    tell(own);
    own.cache.store(cache, std::memory_order_relaxed);
  }
  auto& [count, bytes, requested] = own.reuses;
  // The thread is the only writer.
  const auto add = [](std::atomic<uint64_t>& number, uint64_t more) {
    number.store(number.load(std::memory_order_relaxed) + more,
                 std::memory_order_relaxed);
  };
  add(count, 1);
  add(bytes, block->size);
  add(requested, block->requested);
}

Blocks Parking::parked_of(const DeviceCache& cache) {
  Blocks sum;
  Slot* const own = slot();
  if (own == nullptr) return sum;
  for (size_t i = 0; i < kPlaces; ++i) {
    if (own->blocks[i].load(std::memory_order_relaxed) == nullptr ||
        own->requests[i].cache != &cache) {
      continue;
    }
    ++sum.count;
    sum.bytes += own->bytes[i];
    sum.requested += own->sizes[i];
  }
  return sum;
}

void Parking::tell(Slot& slot) {
  DeviceCache* const cache = slot.cache.load(std::memory_order_relaxed);
  if (cache == nullptr) return;
  const Blocks now{slot.reuses[0].load(std::memory_order_relaxed),
                   slot.reuses[1].load(std::memory_order_relaxed),
                   slot.reuses[2].load(std::memory_order_relaxed)};
  Blocks& told = slot.told;
  if (now.count == told.count) return;
  cache->add_reuses({now.count - told.count, now.bytes - told.bytes,
                     now.requested - told.requested});
  told = now;
}

void Parking::take_all(Slot& slot, std::vector<Block*>& blocks) {
  for (std::atomic<Block*>& place : slot.blocks) {
    if (place.load(std::memory_order_relaxed) == nullptr) continue;
    Block* const block = place.exchange(nullptr, std::memory_order_acq_rel);
    if (block != nullptr) blocks.push_back(block);
  }
}

void Parking::release_all(const std::vector<Block*>& blocks) {
  for (Block* const block : blocks) release_(block);
}

void Parking::drain_others() {
  if (threads_.load(std::memory_order_relaxed) <= 1) return;
  const Slot* const own = slot();
  std::vector<Block*> blocks;  // released without the lock
  {
    const std::lock_guard lock(mutex_);
    for (Slot* const slot : slots_) {
      if (slot != own) take_all(*slot, blocks);
    }
  }
  release_all(blocks);
}

void Parking::drain() {
  std::vector<Block*> blocks;  // released without the lock
  {
    const std::lock_guard lock(mutex_);
    for (Slot* const slot : slots_) {
      take_all(*slot, blocks);
      tell(*slot);
    }
  }
  release_all(blocks);
}

}  // namespace torch_openreg::memory
