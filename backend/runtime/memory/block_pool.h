// The free blocks of one memory pool and kind on one device: small or large.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "backend/runtime/memory/block.h"

namespace torch_openreg::memory {

// Knows which blocks are free and how they lie beside each other; counts
// nothing but the pieces. Two neighbours are never both free. Guarded by the
// lock of its cache.
class BlockPool {
 public:
  // Without `may_split` it never cuts a block.
  BlockPool(bool large, bool may_split);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  bool large() const { return large_; }
  // Where this pool counts in the statistics: in the sum, and as its kind.
  const c10::CachingAllocator::StatTypes& stat_types() const {
    return stat_types_;
  }

  // Takes the smallest free block of `stream` that serves `size` bytes, cut to
  // size where the rest is worth keeping. Null if there is none.
  Block* take(size_t size, c10::StreamId stream);

  // Makes a block of a whole new segment, taken in the same way.
  Block* take_from(Segment& segment, size_t size);

  // Takes `block` back and unites it with its free neighbours.
  void give_back(Block* block);

  // The segments that nobody uses; of one stream from a size on, the largest
  // first.
  std::vector<Segment*> unused() const;
  std::vector<Segment*> unused(c10::StreamId stream, size_t at_least) const;

  // Forgets one of these.
  void remove_unused(Segment* segment);

  // Takes the free blocks of a segment out for good.
  void forget_free(const Segment& segment);

  // How often the pool was asked since `block` became free.
  int64_t age(const Block* block) const {
    return static_cast<int64_t>(clock_ - block->free_at);
  }

  // Free blocks that are parts of a segment: how many more there are than at
  // the call before, and their bytes.
  struct Splits {
    int64_t blocks = 0;
    int64_t bytes = 0;
  };
  Splits take_split_change() { return std::exchange(split_change_, {}); }

 private:
  bool should_split(const Block* block, size_t size) const;
  void split(Block* block, size_t size);
  void absorb_next(Block* block);
  void insert(Block* block);
  void remove(Block* block);

  void count_split(const Block* block, int64_t sign);

  const bool large_;
  const bool may_split_;
  const c10::CachingAllocator::StatTypes stat_types_;
  FreeBlocks free_;
  FreeBlocks::node_type
      spare_;  // saves an allocation where one goes, one comes
  uint64_t clock_ = 0;
  Splits split_change_;
};

}  // namespace torch_openreg::memory
