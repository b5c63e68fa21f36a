#include "backend/runtime/memory/parking.h"

#include <algorithm>
#include <bit>

#include "backend/runtime/memory/device_cache.h"

namespace torch_openreg::memory {

Parking::Slot* Parking::slot() {
  // Plain data: found by a single lookup, and readable still when the thread's
  // own objects are gone, for blocks may be freed then.
  static constinit thread_local Here here;
  if (C10_LIKELY(here.owner == this)) return here.slot;
  return enter(here);
}

// The first use of this thread; or a forked child, which has its own Parking
// and leaves the parent's alone.
Parking::Slot* Parking::enter(Here& here) {
  if (here.has_left) return nullptr;
  static thread_local const Departure departure(here);
  auto* const fresh = new Slot;
  {
    const std::lock_guard lock(mutex_);
    slots_.push_back(fresh);
    threads_.store(slots_.size(), std::memory_order_relaxed);
  }
  here.slot = fresh;
  here.owner = this;
  return fresh;
}

Parking::Departure::~Departure() {
  here_.has_left = true;
  Parking* const owner = std::exchange(here_.owner, nullptr);
  if (owner != nullptr) owner->leave(here_.slot);
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

Parking::Places Parking::Slot::places_of(size_t size) const {
  // Without a branch: the compiler compares several at once.
  const auto low = static_cast<uint32_t>(size);
  Places found = 0;
  for (size_t i = 0; i < kPlaces; ++i) {
    found |= static_cast<Places>(sizes[i] == low) << i;
  }
  return found & used;
}

// Others may have taken what is there.
void Parking::Slot::look_again() {
  for (size_t i = 0; i < kPlaces; ++i) {
    if (blocks[i].load(std::memory_order_relaxed) == nullptr) used &= ~bit(i);
  }
}

size_t Parking::Slot::free_place() {
  if (C10_UNLIKELY(used == kAll)) look_again();
  if (C10_LIKELY(used != kAll)) {
    return static_cast<size_t>(std::countr_one(used));
  }
  return static_cast<size_t>(std::ranges::min_element(parked_at) -
                             parked_at.begin());
}

Block* Parking::take(const Request& request) {
  Slot* const own = slot();
  if (own == nullptr) return nullptr;
  size_t latest = kPlaces;
  for (Places left = own->places_of(request.size); left != 0;
       left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    const Request& of = own->requests[i];
    if (of != request ||
        own->blocks[i].load(std::memory_order_relaxed) == nullptr) {
      continue;
    }
    if (latest == kPlaces || own->parked_at[i] > own->parked_at[latest]) {
      latest = i;
    }
  }
  if (latest == kPlaces) return nullptr;
  own->used &= ~Slot::bit(latest);
  return own->blocks[latest].exchange(nullptr, std::memory_order_acq_rel);
}

Block* Parking::park(Block* block) {
  Slot* const own = slot();
  if (own == nullptr) return block;
  const size_t place = own->free_place();
  own->used |= Slot::bit(place);
  own->sizes[place] = static_cast<uint32_t>(block->requested);
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
    sum.requested += own->requests[i].size;
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
