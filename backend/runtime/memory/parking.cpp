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
  return own.slot;
}

Parking::Place::~Place() {
  has_left = true;
  if (owner != nullptr) owner->leave(slot);
}

void Parking::leave(Slot* slot) {
  Block* const block = slot->block.exchange(nullptr);
  {
    const std::lock_guard lock(mutex_);
    tell(*slot);
    std::erase(slots_, slot);
  }
  delete slot;
  if (block != nullptr) release_(block);
}

Block* Parking::take() {
  Slot* const own = slot();
  if (own == nullptr) return nullptr;
  return own->block.exchange(nullptr, std::memory_order_acq_rel);
}

Block* Parking::park(Block* block) {
  Slot* const own = slot();
  if (own == nullptr) return block;
  return own->block.exchange(block, std::memory_order_acq_rel);
}

void Parking::count_reuse(const Block* block) {
  Slot& own = *slot();  // it has taken a block from there
  DeviceCache* const cache = block->segment->cache;
  if (C10_UNLIKELY(own.cache.load(std::memory_order_relaxed) != cache)) {
    const std::lock_guard lock(mutex_);
    tell(own);
    own.cache.store(cache, std::memory_order_relaxed);
  }
  auto& [count, bytes, requested] =
      own.reuses[block->segment->pool->large() ? 1 : 0];
  // The thread is the only writer.
  const auto add = [](std::atomic<uint64_t>& number, uint64_t more) {
    number.store(number.load(std::memory_order_relaxed) + more,
                 std::memory_order_relaxed);
  };
  add(count, 1);
  add(bytes, block->size);
  add(requested, block->requested);
}

void Parking::tell(Slot& slot) {
  DeviceCache* const cache = slot.cache.load(std::memory_order_relaxed);
  if (cache == nullptr) return;
  for (size_t i = 0; i < slot.reuses.size(); ++i) {
    const Reuses now{slot.reuses[i][0].load(std::memory_order_relaxed),
                     slot.reuses[i][1].load(std::memory_order_relaxed),
                     slot.reuses[i][2].load(std::memory_order_relaxed)};
    Reuses& told = slot.told[i];
    if (now.count == told.count) continue;
    cache->add_reuses(i == 1, {now.count - told.count, now.bytes - told.bytes,
                               now.requested - told.requested});
    told = now;
  }
}

void Parking::drain() {
  std::vector<Block*> blocks;  // released without the lock
  {
    const std::lock_guard lock(mutex_);
    for (Slot* const slot : slots_) {
      Block* const block =
          slot->block.exchange(nullptr, std::memory_order_acq_rel);
      if (block != nullptr) blocks.push_back(block);
      tell(*slot);
    }
  }
  for (Block* const block : blocks) release_(block);
}

}  // namespace torch_openreg::memory
