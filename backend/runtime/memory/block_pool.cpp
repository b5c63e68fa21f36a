#include "backend/runtime/memory/block_pool.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <utility>

namespace torch_openreg::memory {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::kMinBlockSize;
using c10::CachingAllocator::kSmallSize;

BlockPool::BlockPool(bool large, bool may_split)
    : large_(large), may_split_(may_split), stat_types_{true, !large, large} {}

Block* BlockPool::take(size_t size, c10::StreamId stream) {
  ++clock_;
  const auto found = free_.lower_bound(BlockOrder::Key{stream, size});
  if (found == free_.end() || (*found)->stream != stream) return nullptr;
  Block* const block = *found;
  // A block above the limit is never cut: it serves requests that are above it
  // too, if not much of it is wasted.
  const size_t limit = AcceleratorAllocatorConfig::max_split_size();
  if (size < limit && block->size >= limit) return nullptr;
  if (size >= limit &&
      block->size - size >=
          AcceleratorAllocatorConfig::max_non_split_rounding_size()) {
    return nullptr;
  }
  remove(block);
  if (should_split(block, size)) split(block, size);
  return block;
}

Block* BlockPool::take_from(Segment& segment, size_t size) {
  Block* const block = new Block;
  block->segment = &segment;
  block->ptr = segment.base;
  block->size = segment.size;
  block->stream = segment.stream;
  segment.first = block;
  if (should_split(block, size)) split(block, size);
  return block;
}

void BlockPool::give_back(Block* block) {
  block->state = Block::State::kFree;
  block->requested = 0;
  if (block->next != nullptr && block->next->state == Block::State::kFree) {
    remove(block->next);
    absorb_next(block);
  }
  if (block->prev != nullptr && block->prev->state == Block::State::kFree) {
    block = block->prev;
    remove(block);
    absorb_next(block);
  }
  insert(block);
}

std::vector<Segment*> BlockPool::unused() const {
  std::vector<Segment*> found;
  for (const Block* block : free_) {
    if (!block->is_split()) found.push_back(block->segment);
  }
  return found;
}

std::vector<Segment*> BlockPool::unused(c10::StreamId stream,
                                        size_t at_least) const {
  std::vector<Segment*> found;
  auto it = free_.lower_bound(BlockOrder::Key{stream, at_least});
  for (; it != free_.end() && (*it)->stream == stream; ++it) {
    if (!(*it)->is_split()) found.push_back((*it)->segment);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

void BlockPool::remove_unused(Segment* segment) { remove(segment->first); }

void BlockPool::forget_free(const Segment& segment) {
  for (Block* block = segment.first; block != nullptr; block = block->next) {
    if (block->state == Block::State::kFree) remove(block);
  }
}

bool BlockPool::should_split(const Block* block, size_t size) const {
  if (!may_split_) return false;
  const size_t rest = block->size - size;
  if (!large_) return rest >= kMinBlockSize;
  return size < AcceleratorAllocatorConfig::max_split_size() &&
         rest > kSmallSize;
}

void BlockPool::split(Block* block, size_t size) {
  Block* const rest = new Block;
  rest->segment = block->segment;
  rest->ptr = block->ptr + size;
  rest->size = block->size - size;
  rest->stream = block->stream;
  rest->prev = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->prev = rest;
  block->next = rest;
  block->size = size;
  insert(rest);
}

void BlockPool::absorb_next(Block* block) {
  const std::unique_ptr<Block> gone(block->next);
  block->size += gone->size;
  block->next = gone->next;
  if (block->next != nullptr) block->next->prev = block;
}

void BlockPool::insert(Block* block) {
  block->free_at = clock_;
  if (spare_) {
    spare_.value() = block;
    block->place = free_.insert(std::move(spare_)).position;
  } else {
    block->place = free_.insert(block).first;
  }
  count_split(block, 1);
}

void BlockPool::remove(Block* block) {
  spare_ = free_.extract(block->place);
  count_split(block, -1);
}

void BlockPool::count_split(const Block* block, int64_t sign) {
  if (!block->is_split()) return;
  split_change_.blocks += sign;
  split_change_.bytes += sign * static_cast<int64_t>(block->size);
}

}  // namespace torch_openreg::memory
