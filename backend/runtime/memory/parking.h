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
// thread may park a few small blocks that it has freed; an allocation takes one
// of them, if it is the same request again, without a lock. To the cache of its
// device a parked block is allocated. So whatever looks at a cache or needs
// more memory than it has takes the parked blocks of all threads first, and
// what it finds is exact: drain() also brings the numbers of allocations and
// frees that the caches have missed. An allocation that the cache can serve
// leaves the thread's own blocks where they are, and tells the cache of them,
// which leaves them out of its peaks.

// Blocks of the small kind: how many, and how large.
struct Blocks {
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t requested = 0;
};

// Thread-safe. Never destroyed: threads may outlive every static object.
class Parking {
 public:
  // What a block was allocated for.
  struct Request {
    const DeviceCache* cache;
    size_t size;
    c10::StreamId stream;
    bool operator==(const Request&) const = default;
  };

  // `release` gives a block back to its cache.
  explicit Parking(std::function<void(Block*)> release)
      : release_(std::move(release)) {}

  // Takes the block of this request that the calling thread has parked last;
  // null if there is none.
  Block* take(const Request& request);

  // Parks `block`, which nobody uses, for the calling thread. Returns a block
  // to release instead: the one that was parked longest ago, or null; at the
  // end of the thread, when it can park no more, `block` itself.
  Block* park(Block* block);

  // Notes that the calling thread uses a block again.
  void count_reuse(const Block* block);

  // What the calling thread has parked of a cache.
  Blocks parked_of(const DeviceCache& cache);

  // Releases the parked blocks of all other threads.
  void drain_others();

  // Releases the parked blocks of all threads, and tells the caches what they
  // have missed.
  void drain();

 private:
  static constexpr size_t kPlaces = 16;
  using Places = uint32_t;  // a bit for each
  static constexpr Places kAll = (Places{1} << kPlaces) - 1;

  struct alignas(64) Slot {
    static constexpr Places bit(size_t place) { return Places{1} << place; }
    // Where a block of this size may be: of the sizes, the low bits agree.
    Places places_of(size_t size) const;
    // A place for a block: a free one, or that of the oldest block.
    size_t free_place();
    void look_again();

    // Taken by whoever comes first.
    std::array<std::atomic<Block*>, kPlaces> blocks{};
    // What they are; the thread's alone. The sizes are apart as well, because
    // every allocation looks through them.
    std::array<uint32_t, kPlaces> sizes{};  // low bits
    std::array<Request, kPlaces> requests{};
    std::array<size_t, kPlaces> bytes{};
    std::array<uint64_t, kPlaces> parked_at{};
    Places used =
        0;  // where the thread has parked a block that it did not take
    uint64_t clock = 0;
    // Written by the thread alone: blocks of `cache` that were used again.
    std::atomic<DeviceCache*> cache{nullptr};
    std::array<std::atomic<uint64_t>, 3> reuses{};
    Blocks told;  // guarded by mutex_
  };
  // What a thread knows of itself.
  struct Here {
    Parking* owner = nullptr;
    Slot* slot = nullptr;
    bool has_left = false;
  };
  // Ends with the thread.
  class Departure {
   public:
    explicit Departure(Here& here) : here_(here) {}
    ~Departure();
    Departure(const Departure&) = delete;
    Departure& operator=(const Departure&) = delete;

   private:
    Here& here_;
  };

  // The calling thread's; null at its end.
  Slot* slot();
  Slot* enter(Here& here);
  void tell(Slot& slot);  // requires mutex_
  void leave(Slot* slot);
  static void take_all(Slot& slot, std::vector<Block*>& blocks);
  void release_all(const std::vector<Block*>& blocks);

  const std::function<void(Block*)> release_;

  std::mutex mutex_;
  std::vector<Slot*> slots_;        // guarded by mutex_
  std::atomic<size_t> threads_{0};  // as many; written under mutex_
};

}  // namespace torch_openreg::memory
