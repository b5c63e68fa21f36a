// From a pointer to its block.
#pragma once

#include <c10/core/AllocatorConfig.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "backend/runtime/memory/block.h"

namespace torch_openreg::memory {

// Note [A pointer is its own context]
// A DataPtr of ours has the data pointer as its context, not the block. Only so
// do Allocator::raw_allocate, raw_deallocate and is_simple_data_ptr work, which
// PyTorch uses for copy-on-write and extensions use to allocate. The price is
// this map.

// The blocks that are allocated, on all devices: a tree of tables by the bits
// of an address. Tables are made when they are needed and stay. Thread-safe,
// without a lock.
class LiveBlocks {
 public:
  LiveBlocks() = default;
  LiveBlocks(const LiveBlocks&) = delete;
  LiveBlocks& operator=(const LiveBlocks&) = delete;
  ~LiveBlocks() {
    for (std::atomic<Middle*>& middle : root_) {
      const std::unique_ptr<Middle> owned(middle.load());
      if (owned == nullptr) continue;
      for (std::atomic<Leaf*>& leaf : *owned) delete leaf.load();
    }
  }

  void insert(Block* block) {
    const Path path(block->ptr);
    Middle& middle = made(root_.at(path.root));
    made(middle[path.middle])[path.leaf].store(block,
                                               std::memory_order_release);
  }

  // Null if no block starts at `ptr`.
  Block* find(const void* ptr) const {
    const std::atomic<Block*>* const place = place_of(ptr);
    return place != nullptr ? place->load(std::memory_order_acquire) : nullptr;
  }

  void remove(const void* ptr) {
    place_of(ptr)->store(nullptr, std::memory_order_release);
  }

 private:
  static constexpr unsigned kAddressBits = 48;
  static constexpr unsigned kBlockBits = 9;
  static_assert(size_t{1} << kBlockBits ==
                c10::CachingAllocator::kMinBlockSize);
  static constexpr unsigned kBits = (kAddressBits - kBlockBits) / 3;  // a table
  static constexpr size_t kTable = size_t{1} << kBits;
  using Leaf = std::array<std::atomic<Block*>, kTable>;
  using Middle = std::array<std::atomic<Leaf*>, kTable>;

  struct Path {
    explicit Path(const void* ptr) {
      const auto address = reinterpret_cast<uintptr_t>(ptr);
      is_aligned = address % c10::CachingAllocator::kMinBlockSize == 0;
      const uintptr_t number = address >> kBlockBits;
      leaf = number % kTable;
      middle = (number >> kBits) % kTable;
      root = number >> (2 * kBits);
    }
    bool is_aligned;
    size_t root, middle, leaf;
  };

  const std::atomic<Block*>* place_of(const void* ptr) const {
    return const_cast<LiveBlocks*>(this)->place_of(ptr);
  }
  // Null if there is none.
  std::atomic<Block*>* place_of(const void* ptr) {
    const Path path(ptr);
    if (!path.is_aligned || path.root >= kTable) return nullptr;
    Middle* const middle = root_[path.root].load(std::memory_order_acquire);
    if (middle == nullptr) return nullptr;
    Leaf* const leaf = (*middle)[path.middle].load(std::memory_order_acquire);
    return leaf != nullptr ? &(*leaf)[path.leaf] : nullptr;
  }

  template <typename Table>
  static Table& made(std::atomic<Table*>& slot) {
    Table* found = slot.load(std::memory_order_acquire);
    if (C10_LIKELY(found != nullptr)) return *found;
    auto fresh = std::make_unique<Table>();
    if (slot.compare_exchange_strong(found, fresh.get())) {
      return *fresh.release();
    }
    return *found;
  }

  std::array<std::atomic<Middle*>, kTable> root_{};
};

}  // namespace torch_openreg::memory
