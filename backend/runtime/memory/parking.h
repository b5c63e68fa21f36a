// The shortest way from a freed block to the next allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/runtime/memory/block.h"

namespace torch_openreg::memory {

// Note [Parked blocks]
// Programs free a tensor and ask for one of the same size all the time. Each
// thread may park the block that it freed last; its next allocation takes it,
// if it is the same request again, without a lock. To the cache of its device a
// parked block is allocated. So whatever looks at a cache or needs memory takes
// the parked blocks of all threads first, and what it finds is exact: drain()
// also brings the numbers of allocations and frees that the caches have missed.

// Requests that were served by a parked block: each is a free and an
// allocation.
struct Reuses {
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t requested = 0;
};

// Thread-safe. Never destroyed: threads may outlive every static object.
class Parking {
 public:
  // `release` gives a block back to its cache.
  explicit Parking(std::function<void(Block*)> release)
      : release_(std::move(release)) {}

  // Takes what the calling thread has parked; null if that is nothing.
  Block* take();

  // Parks `block`, which nobody uses, for the calling thread. Returns the block
  // to release instead: the one that was parked before, or null; at the end of
  // the thread, when it can park no more, `block` itself.
  Block* park(Block* block);

  // Notes that the calling thread uses a block again.
  void count_reuse(const Block* block);

  // Releases the parked blocks of all threads, and tells the caches what they
  // have missed.
  void drain();

 private:
  struct alignas(64) Slot {
    std::atomic<Block*> block{nullptr};
    // Of small and large blocks of `cache`. Written by the thread alone.
    std::atomic<DeviceCache*> cache{nullptr};
    std::array<std::array<std::atomic<uint64_t>, 3>, 2> reuses{};
    std::array<Reuses, 2> told{};  // guarded by mutex_
  };
  // A thread's place; ends with the thread.
  struct Place {
    ~Place();
    Parking* owner = nullptr;
    Slot* slot = nullptr;
  };

  // The calling thread's; null at its end.
  Slot* slot();
  void tell(Slot& slot);  // requires mutex_
  void leave(Slot* slot);

  const std::function<void(Block*)> release_;

  std::mutex mutex_;
  std::vector<Slot*> slots_;  // guarded by mutex_
};

}  // namespace torch_openreg::memory
