#include "core/host_memory.h"

#include <algorithm>

#include "core/config.h"
#include "core/system_memory.h"

namespace openreg {

namespace {

uintptr_t to_address(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

}  // namespace

Status HostMemory::open() {
  if (heap_.load(std::memory_order_acquire) != nullptr) return {};
  used_.store(true, std::memory_order_release);
  const MutexLock lock(open_mutex_);
  if (owned_heap_ != nullptr) return {};
  const size_t space = usable_address_space();
  size_t size =
      std::min(usable_memory(), space == SIZE_MAX ? space : space / 4);
  for (size = size / kMemoryGrain * kMemoryGrain; size >= kMemoryGrain;
       size = size / 2 / kMemoryGrain * kMemoryGrain) {
    if (!reserve(size)) continue;
    Heap::GiveBack give_back = give_back_pages;
    if (shared_) {
      give_back = [this](uintptr_t address, size_t bytes) {
        shared_arena_.give_back(address - base_, bytes);
      };
    }
    owned_heap_ =
        std::make_unique<Heap>(base_, size, size, std::move(give_back));
    heap_.store(owned_heap_.get(), std::memory_order_release);
    return {};
  }
  return failure(orErrorOutOfMemory,
                 "no address space is left for pinned memory: raise the limit "
                 "(ulimit -v) or lower OPENREG_MEMORY");
}

bool HostMemory::reserve(size_t size) {
  if (shared_) {
    shared_arena_ = SharedMemory::create("openreg-pinned", size);
    base_ = reinterpret_cast<uintptr_t>(shared_arena_.data());
  } else {
    Mapping arena = Mapping::reserve(size);
    if (!arena || !arena.make_usable(0, size)) return false;
    arena_ = std::move(arena);
    base_ = arena_.address();
  }
  return base_ != 0;
}

Status HostMemory::allocate(size_t size, void** pointer) {
  OPENREG_RETURN_IF_ERROR(open());
  Heap& heap = *heap_.load(std::memory_order_acquire);
  if (const auto address = heap.allocate(size)) {
    *pointer = reinterpret_cast<void*>(*address);
    return {};
  }
  return failure(orErrorOutOfMemory,
                 "the host has not enough pinned memory: asked for %zu bytes, "
                 "%zu of %zu bytes are free, %zu of them in one piece",
                 size, heap.available(), heap.limit(), heap.largest_piece());
}

Status HostMemory::begin_free(void* pointer) {
  Heap* heap = heap_.load(std::memory_order_acquire);
  if (heap != nullptr && heap->begin_free(to_address(pointer))) return {};
  const std::optional<Block> block = find(pointer);
  return failure(
      orErrorInvalidValue,
      "ptr=%p is not the start of a live pinned allocation: %s", pointer,
      block ? "it lies inside pinned memory, or is being freed"
            : "it was freed before, or orMallocHost did not give it");
}

void HostMemory::end_free(void* pointer) {
  heap_.load(std::memory_order_acquire)->end_free(to_address(pointer));
}

Status HostMemory::add_range(void* pointer, size_t size) {
  const uintptr_t address = to_address(pointer);
  if (!is_mapped(pointer, size)) {
    return failure(orErrorInvalidValue,
                   "ptr=%p, size=%zu is not memory of this process", pointer,
                   size);
  }
  used_.store(true, std::memory_order_release);
  const MutexLock lock(ranges_mutex_);
  if (overlaps_arena(address, size) || overlaps_range(address, size)) {
    return failure(orErrorInvalidValue,
                   "ptr=%p, size=%zu overlaps memory that is pinned already",
                   pointer, size);
  }
  ranges_.emplace(address, Range{size, false});
  range_count_.store(ranges_.size(), std::memory_order_release);
  return {};
}

Status HostMemory::begin_remove_range(void* pointer) {
  const MutexLock lock(ranges_mutex_);
  const auto place = ranges_.find(to_address(pointer));
  if (place == ranges_.end() || place->second.dying) {
    return failure(orErrorInvalidValue,
                   "ptr=%p is not the start of a registered range", pointer);
  }
  place->second.dying = true;
  return {};
}

void HostMemory::end_remove_range(void* pointer) {
  const MutexLock lock(ranges_mutex_);
  ranges_.erase(to_address(pointer));
  range_count_.store(ranges_.size(), std::memory_order_release);
}

std::optional<Block> HostMemory::find(const void* pointer) const {
  const uintptr_t address = to_address(pointer);
  const Heap* heap = heap_.load(std::memory_order_acquire);
  if (heap != nullptr && heap->covers(address)) return heap->find(address);
  if (range_count_.load(std::memory_order_acquire) == 0) return std::nullopt;
  const SharedLock lock(ranges_mutex_);
  return find_range(address);
}

HostKind HostMemory::classify(const void* pointer, size_t size) const {
  const uintptr_t address = to_address(pointer);
  if (const std::optional<Block> block = find(pointer)) {
    // The byte past the end of a range belongs to whatever comes next.
    const bool past_end = address == block->base + block->size;
    if (block->contains(address, size)) return HostKind::kPinned;
    if (!past_end) return HostKind::kPartlyPinned;
  }
  if (size > 0 && overlaps_arena(address, size)) return HostKind::kPartlyPinned;
  if (range_count_.load(std::memory_order_acquire) == 0) {
    return HostKind::kPageable;
  }
  const SharedLock lock(ranges_mutex_);
  return overlaps_range(address, size) ? HostKind::kPartlyPinned
                                       : HostKind::kPageable;
}

size_t HostMemory::live() const {
  const Heap* heap = heap_.load(std::memory_order_acquire);
  const SharedLock lock(ranges_mutex_);
  return ranges_.size() + (heap != nullptr ? heap->live() : 0);
}

bool HostMemory::overlaps_arena(uintptr_t address, size_t size) const {
  const Heap* heap = heap_.load(std::memory_order_acquire);
  return heap != nullptr && size > 0 &&
         (heap->covers(address) || heap->covers(address + size - 1) ||
          (address < base_ && base_ - address < size));
}

std::optional<Block> HostMemory::find_range(uintptr_t address) const {
  auto place = ranges_.upper_bound(address);
  if (place == ranges_.begin()) return std::nullopt;
  --place;
  const Block block{place->first, place->second.size};
  if (!block.contains(address, 0)) return std::nullopt;
  return block;
}

bool HostMemory::overlaps_range(uintptr_t address, size_t size) const {
  const auto next = ranges_.lower_bound(address);
  if (next != ranges_.end() && next->first - address < size) return true;
  const auto before = find_range(address);
  return before.has_value() && before->contains(address, 1);
}

}  // namespace openreg
