// The question of every allocation: which memory pool?
#pragma once

#include <atomic>
#include <cstdint>

#include "backend/runtime/mem_pool.h"

namespace torch_openreg::memory {

// How many scopes of memory pools there are, of all threads. A thread that has
// one sees at least that.
extern std::atomic<int64_t> scope_count;

// current_mem_pool, without a call where no pool is in use: the thread's own
// variables cost more than this number.
inline const OpenRegMemPool* pool_in_use(c10::DeviceIndex device) noexcept {
  if (C10_LIKELY(scope_count.load(std::memory_order_relaxed) == 0)) {
    return nullptr;
  }
  return current_mem_pool(device);
}

}  // namespace torch_openreg::memory
