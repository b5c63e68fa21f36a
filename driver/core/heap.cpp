#include "core/heap.h"

#include <algorithm>
#include <mutex>

#include "core/futex.h"

namespace openreg {

namespace {

// Freed memory that stays with the process, so that the next allocation needs
// no system call and no new pages.
constexpr size_t kKeepBytes = size_t{256} << 20;

// Freed blocks that reports can tell about.
constexpr size_t kRememberedBlocks = 1024;

// How often a report asks for the lock: about a millisecond.
constexpr int kImpatientTries = 20'000;

constexpr size_t round_up(size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::optional<Block> RecentBlocks::find(uintptr_t address) const {
  const Slot& slot = slots_[index_of(address)];
  const uint64_t version = slot.version.load(std::memory_order_acquire);
  const Block block{slot.base.load(std::memory_order_acquire),
                    slot.size.load(std::memory_order_acquire)};
  if (version % 2 != 0 ||
      slot.version.load(std::memory_order_relaxed) != version) {
    return std::nullopt;
  }
  // The end may be the start of another block.
  if (!block.contains(address, 1)) return std::nullopt;
  return block;
}

void RecentBlocks::remember(uintptr_t address, const Block& block) {
  Slot& slot = slots_[index_of(address)];
  uint64_t version = slot.version.load(std::memory_order_relaxed);
  if (version % 2 != 0 ||
      !slot.version.compare_exchange_strong(version, version + 1,
                                            std::memory_order_acquire)) {
    return;  // another thread is at it
  }
  slot.base.store(block.base, std::memory_order_release);
  slot.size.store(block.size, std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

void RecentBlocks::forget() {
  for (Slot& slot : slots_) {
    const uint64_t version = slot.version.load(std::memory_order_relaxed);
    slot.version.store(version + 1, std::memory_order_relaxed);
    slot.base.store(0, std::memory_order_release);
    slot.size.store(0, std::memory_order_release);
    slot.version.store(version + 2, std::memory_order_release);
  }
}

Heap::Heap(uintptr_t base, size_t size, size_t limit, GiveBack give_back)
    : base_(base),
      size_(size),
      limit_(limit),
      give_back_(std::move(give_back)),
      highest_(base) {
  add_piece(base, {size, 0});
}

std::optional<uintptr_t> Heap::allocate(size_t size) {
  if (size > limit_) return std::nullopt;
  const size_t extent = round_up(size);
  const MutexLock lock(mutex_);
  if (closed_ || extent > limit_ - allocated_) return std::nullopt;
  const auto fit = by_size_.lower_bound({extent, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const uintptr_t address = fit->second;
  live_.emplace(address, LiveBlock{size, extent, false});
  const FreePiece piece = take_piece(free_.find(address));
  if (piece.size > extent) {
    // What was used before is mostly at the front: see used_before.
    const size_t rest_used =
        piece.used_before > extent ? piece.used_before - extent : 0;
    add_piece(address + extent, {piece.size - extent, rest_used});
  }
  allocated_ += extent;
  highest_ = std::max(highest_, address + extent);
  return address;
}

bool Heap::place(uintptr_t address, size_t size) {
  if (size == 0 || size > limit_ || address % kAlignment != 0) return false;
  const size_t extent = round_up(size);
  const MutexLock lock(mutex_);
  if (closed_ || extent > limit_ - allocated_) return false;
  auto next = free_.upper_bound(address);
  if (next == free_.begin()) return false;
  const auto place = std::prev(next);
  const size_t before = address - place->first;
  if (before > place->second.size || extent > place->second.size - before) {
    return false;
  }
  const uintptr_t start = place->first;
  const FreePiece piece = take_piece(place);
  const size_t after = piece.size - before - extent;
  const size_t used = piece.used_before;
  if (before > 0) add_piece(start, {before, std::min(used, before)});
  const size_t end = before + extent;
  if (after > 0) {
    add_piece(address + extent, {after, used > end ? used - end : 0});
  }
  live_.emplace(address, LiveBlock{size, extent, false});
  allocated_ += extent;
  highest_ = std::max(highest_, address + extent);
  return true;
}

bool Heap::begin_free(uintptr_t address) {
  const MutexLock lock(mutex_);
  const auto place = live_.find(address);
  if (place == live_.end() || place->second.dying) return false;
  place->second.dying = true;
  return true;
}

void Heap::end_free(uintptr_t address) {
  const MutexLock lock(mutex_);
  const auto place = live_.find(address);
  if (place == live_.end()) return;  // closed meanwhile
  const LiveBlock block = place->second;
  recent_.forget();
  live_.erase(place);
  allocated_ -= block.extent;
  remember(address, block.size);
  add_piece(address, {block.extent, block.extent});
  give_back_excess();
}

void Heap::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  recent_.forget();
  live_.clear();
  freed_ = {};
  free_.clear();
  by_size_.clear();
  allocated_ = 0;
  kept_ = 0;
}

std::optional<Block> Heap::find(uintptr_t address) const {
  if (const auto block = recent_.find(address)) return block;
  const SharedLock lock(mutex_);
  const auto block = find_locked(address);
  if (block.has_value()) recent_.remember(address, *block);
  return block;
}

std::optional<Block> Heap::find_locked(uintptr_t address) const {
  auto place = live_.upper_bound(address);
  if (place == live_.begin()) return std::nullopt;
  --place;
  const Block block{place->first, place->second.size};
  if (!block.contains(address, 0)) return std::nullopt;
  return block;
}

Trace Heap::trace(uintptr_t address, bool patient) const {
  if (patient) {
    const SharedLock lock(mutex_);
    return trace_locked(address);
  }
  for (int i = 0; i < kImpatientTries; ++i) {
    if (mutex_.try_lock_shared()) {
      const SharedLock lock(mutex_, std::adopt_lock);
      return trace_locked(address);
    }
    spin_pause();
  }
  return {Trace::Kind::kBusy, {}};
}

Trace Heap::trace_locked(uintptr_t address) const {
  if (const auto block = find_locked(address)) {
    return {Trace::Kind::kLive, *block};
  }
  for (size_t age = 1; age <= freed_.size(); ++age) {
    const Block& block = freed_[(freed_count_ - age) % freed_.size()];
    if (block.contains(address, 1)) return {Trace::Kind::kFreed, block};
  }
  return {address < highest_ ? Trace::Kind::kFreed : Trace::Kind::kNever, {}};
}

size_t Heap::available() const {
  const SharedLock lock(mutex_);
  return limit_ - allocated_;
}

size_t Heap::largest_piece() const {
  const SharedLock lock(mutex_);
  const size_t largest = by_size_.empty() ? 0 : by_size_.rbegin()->first;
  return std::min(largest, limit_ - allocated_);
}

size_t Heap::live() const {
  const SharedLock lock(mutex_);
  return live_.size();
}

// Adds a free piece and makes one of it and its free neighbours.
void Heap::add_piece(uintptr_t address, FreePiece piece) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + piece.size) {
    const auto after = next++;
    const FreePiece merged = take_piece(after);
    piece.size += merged.size;
    piece.used_before += merged.used_before;
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.size == address) {
      address = before->first;
      const FreePiece merged = take_piece(before);
      piece.size += merged.size;
      piece.used_before += merged.used_before;
    }
  }
  free_.emplace(address, piece);
  by_size_.emplace(piece.size, address);
  kept_ += piece.used_before;
}

Heap::FreePiece Heap::take_piece(FreeMap::iterator place) {
  const FreePiece piece = place->second;
  by_size_.erase({piece.size, place->first});
  kept_ -= piece.used_before;
  free_.erase(place);
  return piece;
}

void Heap::give_back_excess() {
  for (auto it = by_size_.rbegin(); kept_ > kKeepBytes && it != by_size_.rend();
       ++it) {
    FreePiece& piece = free_.find(it->second)->second;
    if (piece.used_before == 0) continue;
    give_back_(it->second, piece.size);
    kept_ -= piece.used_before;
    piece.used_before = 0;
  }
}

void Heap::remember(uintptr_t base, size_t size) {
  const Block block{base, size};
  if (freed_.size() < kRememberedBlocks) {
    freed_.push_back(block);
  } else {
    freed_[freed_count_ % kRememberedBlocks] = block;
  }
  ++freed_count_;
}

}  // namespace openreg
