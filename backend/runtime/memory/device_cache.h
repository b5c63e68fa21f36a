// The device allocator's memory of one device: its lock, pools and segments,
// and its statistics.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/runtime/memory/block.h"
#include "backend/runtime/memory/history.h"
#include "backend/runtime/memory/parking.h"
#include "backend/runtime/memory/pending_frees.h"
#include "backend/runtime/memory/pool_pair.h"

namespace torch_openreg::memory {

// Note [No lock while waiting]
// `mutex_` is never held while this thread waits for the device: a release, a
// statistic or an allocation from the cache goes on while another thread waits
// in orFree or for events. Those who wait take `pressure_mutex_` first, one
// after the other. Without it, memory that one thread is about to give back
// would be missing for another, which would report that there is none.

// Thread-safe. Touches the driver only to allocate and to give memory back.
class DeviceCache {
 public:
  // `history` outlives it.
  DeviceCache(c10::DeviceIndex device, const HistorySettings& history);
  DeviceCache(const DeviceCache&) = delete;
  DeviceCache& operator=(const DeviceCache&) = delete;

  // A block of at least `requested` bytes for work on `stream`, from `pool` if
  // it is not null. Waits only if there is no memory left. Throws
  // c10::OutOfMemoryError, and c10::AcceleratorError for an earlier failure of
  // the device.
  Block* allocate(size_t requested, const OpenRegStream& stream,
                  const OpenRegMemPool* pool);

  // The same from what is free, without looking for more memory: null if that
  // does not serve. `parked` counts as allocated here, but is free. Only while
  // nobody records a history or profiles memory: it gathers no context and
  // reports nothing.
  Block* take(size_t requested, const OpenRegStream& stream,
              const OpenRegMemPool* pool, const Blocks& parked);

  // Takes a block back. It can be reused on its stream at once, unless other
  // streams have used it. Never throws.
  void release(Block* block) noexcept;

  // Whether blocks wait for other streams: every allocation looks after them.
  bool has_pending() const {
    return has_pending_.load(std::memory_order_relaxed);
  }

  // Counts requests that were served without this cache.
  void add_reuses(const Blocks& reuses);

  // `stream` uses `block` as well.
  void record_stream(Block* block, const OpenRegStream& stream);

  // Gives all unused segments back to the driver, except those of live memory
  // pools. Waits.
  void empty();
  // The same for the segments of one memory pool, live or not.
  void empty(const c10::MempoolId_t& pool);

  // The device was reset: forgets all its memory, without touching the driver.
  // Blocks that somebody has are gone as well; they are still to be released.
  void forget();

  c10::CachingDeviceAllocator::DeviceStats stats() const;
  void reset_accumulated_stats();
  void reset_peak_stats();

  // In [0, 1]. Concerns segments that are allocated from now on.
  void set_fraction(double fraction) { fraction_ = fraction; }
  double fraction() const { return fraction_; }

  // Begins to keep the latest actions, as Trace::restart.
  void restart_trace(size_t max_entries, bool keep);

  // Its segments, by address, and its history, at one moment.
  struct Snapshot {
    std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;
    std::vector<TraceEntry> trace;
  };
  Snapshot snapshot();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // What an allocation is about. Ends after the lock.
  struct Request {
    size_t requested;
    size_t size;  // of the block
    const OpenRegStream& stream;
    Context context;
    DeadContexts dead;
    PoolPair* owner = nullptr;
    BlockPool* pool = nullptr;  // one of the pair
  };

  // What an entry of the history is about.
  struct Subject {
    const void* address = nullptr;
    size_t size = 0;
    orStream_t stream = nullptr;
    c10::MempoolId_t pool{0, 0};
  };
  static Subject about(const Block& block);
  static Subject about(const Segment& segment);

  // Bytes for the profiler: of this block, in use, reserved.
  struct Usage {
    void* ptr;
    int64_t change;
    size_t allocated;
    size_t reserved;
  };

  Usage usage(const Block* block, int64_t sign) const;
  void report(const Usage& usage) const;

  // All of these are called with the lock held.
  PoolPair& pair_of(const OpenRegMemPool* pool);
  void forget_dead_pools();
  void start(Block* block, Request& request, const Blocks& parked = {});
  void complete(Block* block, DeadContexts& dead);
  void poll_pending(DeadContexts& dead);
  void note_pending() {
    has_pending_.store(!pending_.empty(), std::memory_order_relaxed);
  }
  void count_splits(BlockPool& pool);
  void count_segment(const Segment& segment, bool added);
  void note(TraceEntry::Action action, const Subject& subject,
            const Context& context, DeadContexts& dead);
  void retire(Segment& segment, DeadContexts& dead);
  void end_use(const Block& block);
  void uncount_allocated(const Block& block);
  void uncount_active(const Block& block);
  Block* new_segment(Request& request);
  char* allocate_segment(size_t size);
  size_t allowed();
  bool is_garbage_due();
  std::vector<std::unique_ptr<Segment>> remove(
      const std::vector<Segment*>& segments, const Context& context,
      DeadContexts& dead);

  // These let go of the lock while they wait; `pressure_mutex_` is held.
  Block* allocate_under_pressure(Request& request, Lock& lock);
  Block* try_again(Request& request);
  Block* take_on_oom(const Request& request);
  void collect_garbage(Request& request, Lock& lock);
  void give_up_oversize(Request& request, Lock& lock);
  void give_up_unused(const Context& context, DeadContexts& dead, Lock& lock);
  void give_up_unused(const std::vector<PoolPair*>& pairs,
                      const Context& context, DeadContexts& dead, Lock& lock);
  void give_up(const std::vector<Segment*>& segments, const Context& context,
               DeadContexts& dead, Lock& lock);
  void await_pending(DeadContexts& dead, Lock& lock);
  [[noreturn]] void out_of_memory(Request& request, Lock& lock);

  const c10::DeviceIndex device_;
  const HistorySettings& history_;
  std::atomic<double> fraction_{1.0};
  std::atomic<bool> has_pending_{false};  // written with the lock held

  std::mutex pressure_mutex_;  // before mutex_
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  PoolPair default_;
  std::map<c10::MempoolId_t, PoolPair> pools_;  // made at their first use
  PendingFrees pending_;
  std::map<char*, std::unique_ptr<Segment>> segments_;
  std::map<const Segment*, std::unique_ptr<Segment>> retired_;
  c10::CachingDeviceAllocator::DeviceStats stats_;
  Trace trace_;
  size_t capacity_ = 0;  // of the device; 0 until it is asked for
};

}  // namespace torch_openreg::memory
