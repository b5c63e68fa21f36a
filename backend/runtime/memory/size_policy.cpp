#include "backend/runtime/memory/size_policy.h"

#include <c10/core/AllocatorConfig.h>

#include <bit>

namespace torch_openreg::memory {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::kMinBlockSize;
using c10::CachingAllocator::kMinLargeAlloc;
using c10::CachingAllocator::kRoundLarge;
using c10::CachingAllocator::kSmallBuffer;
using c10::CachingAllocator::kSmallSize;

namespace {

// `unit` is a power of two.
size_t round_up(size_t size, size_t unit) {
  return (size + unit - 1) & ~(unit - 1);
}

}  // namespace

size_t block_size(size_t requested) {
  if (requested < kMinBlockSize) return kMinBlockSize;
  const size_t divisions =
      AcceleratorAllocatorConfig::roundup_power2_divisions(requested);
  if (divisions > 1 && requested > kMinBlockSize * divisions) {
    return round_up(requested, std::bit_floor(requested) / divisions);
  }
  return round_up(requested, kMinBlockSize);
}

bool is_large(size_t block_size) { return block_size > kSmallSize; }

size_t segment_size(size_t block_size) {
  if (!is_large(block_size)) return kSmallBuffer;
  if (block_size < kMinLargeAlloc) {
    return AcceleratorAllocatorConfig::large_segment_size();
  }
  return round_up(block_size, kRoundLarge);
}

}  // namespace torch_openreg::memory
