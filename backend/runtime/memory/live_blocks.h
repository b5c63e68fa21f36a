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
// of an address. Tables are made when they are needed and stay. A device that
// was reset has other addresses and needs tables of its own, so they are small:
// a page. Thread-safe, without a lock.
class LiveBlocks {
 public:
  LiveBlocks() = default;
  LiveBlocks(const LiveBlocks&) = delete;
  LiveBlocks& operator=(const LiveBlocks&) = delete;
  ~LiveBlocks() {
    destroy(root_, [](High& high) {
      destroy(high, [](Low& low) { destroy(low, [](Leaf&) {}); });
    });
  }

  void insert(Block* block) {
    const Path path(block->ptr);
    High& high = made(root_.at(path.root));
    Low& low = made(high[path.high]);
    made(low[path.low])[path.leaf].store(block, std::memory_order_release);
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
  static constexpr unsigned kBits = 9;  // of each table but the root
  static constexpr size_t kTable = size_t{1} << kBits;
  static constexpr size_t kRoot = size_t{1}
                                  << (kAddressBits - kBlockBits - 3 * kBits);
  using Leaf = std::array<std::atomic<Block*>, kTable>;
  using Low = std::array<std::atomic<Leaf*>, kTable>;
  using High = std::array<std::atomic<Low*>, kTable>;

  struct Path {
    explicit Path(const void* ptr) {
      const auto address = reinterpret_cast<uintptr_t>(ptr);
      is_aligned = address % c10::CachingAllocator::kMinBlockSize == 0;
      const uintptr_t number = address >> kBlockBits;
      leaf = number % kTable;
      low = (number >> kBits) % kTable;
      high = (number >> (2 * kBits)) % kTable;
      root = number >> (3 * kBits);
    }
    bool is_aligned;
    size_t root, high, low, leaf;
  };

  const std::atomic<Block*>* place_of(const void* ptr) const {
    return const_cast<LiveBlocks*>(this)->place_of(ptr);
  }
  // Null if there is none.
  std::atomic<Block*>* place_of(const void* ptr) {
    const Path path(ptr);
    if (!path.is_aligned || path.root >= kRoot) return nullptr;
    High* const high = root_[path.root].load(std::memory_order_acquire);
    if (high == nullptr) return nullptr;
    Low* const low = (*high)[path.high].load(std::memory_order_acquire);
    if (low == nullptr) return nullptr;
    Leaf* const leaf = (*low)[path.low].load(std::memory_order_acquire);
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

  // Deletes the tables that this one leads to, `first` what they lead to.
  template <typename Tables, typename First>
  static void destroy(Tables& tables, First first) {
    for (auto& slot : tables) {
      auto* const table = slot.load();
      if (table == nullptr) continue;
      first(*table);
      delete table;
    }
  }

  std::array<std::atomic<High*>, kRoot> root_{};
};

}  // namespace torch_openreg::memory
