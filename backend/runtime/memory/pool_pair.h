// The memory that one pool has on one device.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>

#include "backend/runtime/mem_pool.h"
#include "backend/runtime/memory/block_pool.h"

namespace torch_openreg::memory {

// Guarded by the lock of its cache, except that whoever holds one of its blocks
// may read what is constant.
struct PoolPair {
  // For what is allocated outside all pools: it is never dead.
  PoolPair() : id{0, 0} {}

  explicit PoolPair(const OpenRegMemPool& pool)
      : id(pool.id()),
        use_on_oom(pool.options().use_on_oom),
        owner(pool.weak_from_this()),
        small(false, !pool.options().no_split),
        large(true, !pool.options().no_split) {}

  bool is_default() const { return id == c10::MempoolId_t{0, 0}; }
  BlockPool& of_kind(bool is_large) { return is_large ? large : small; }
  // Whether nobody can allocate here any more.
  bool dead() const { return !is_default() && owner.expired(); }

  const c10::MempoolId_t id;
  const bool use_on_oom = false;
  const std::weak_ptr<const OpenRegMemPool> owner;
  BlockPool small{false, true};
  BlockPool large{true, true};
  size_t segments = 0;
};

}  // namespace torch_openreg::memory
