// From a pointer to its block.
#pragma once

#include <c10/util/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <mutex>

#include "backend/runtime/memory/block.h"

namespace torch_openreg::memory {

// Note [A pointer is its own context]
// A DataPtr of ours has the data pointer as its context, not the block. Only so
// do Allocator::raw_allocate, raw_deallocate and is_simple_data_ptr work, which
// PyTorch uses for copy-on-write and extensions use to allocate. The price is
// this map: a tenth of the time of an allocation and its release.

// The blocks that are allocated, on all devices. In shards, so that devices and
// threads seldom meet. Thread-safe.
class LiveBlocks {
 public:
  void insert(Block* block) {
    Shard& shard = shard_of(block->ptr);
    const std::lock_guard lock(shard.mutex);
    shard.blocks.emplace(block->ptr, block);
  }

  // Null if no block starts at `ptr`.
  Block* find(const void* ptr) {
    Shard& shard = shard_of(ptr);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.blocks.find(ptr);
    return found != shard.blocks.end() ? found->second : nullptr;
  }

  // The same, and removes it.
  Block* take(const void* ptr) {
    Shard& shard = shard_of(ptr);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.blocks.find(ptr);
    if (found == shard.blocks.end()) return nullptr;
    Block* const block = found->second;
    shard.blocks.erase(found);
    return block;
  }

 private:
  struct alignas(64) Shard {
    std::mutex mutex;
    ska::flat_hash_map<const void*, Block*> blocks;  // guarded by mutex
  };
  static constexpr size_t kShards = 64;

  Shard& shard_of(const void* ptr) {
    // The upper bits of the product depend on all bits of the address.
    const uint64_t mixed =
        reinterpret_cast<uintptr_t>(ptr) * 0x9e3779b97f4a7c15u;
    return shards_[mixed >> 58];
  }

  std::array<Shard, kShards> shards_;
};

}  // namespace torch_openreg::memory
