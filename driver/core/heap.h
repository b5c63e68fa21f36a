// Which parts of a range of addresses are allocated. Knows nothing of what lies
// behind the addresses: it never touches them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/thread_safety.h"

namespace openreg {

inline constexpr size_t kAlignment = 512;

// A live allocation, as it was asked for.
struct Block {
  uintptr_t base = 0;
  size_t size = 0;

  // Whether [address, address + size) lies inside.
  bool contains(uintptr_t address, size_t bytes) const {
    return address >= base && address - base <= size &&
           bytes <= size - (address - base);
  }
};

// The block that an address belongs to, or has belonged to.
struct Trace {
  enum class Kind {
    kNever,  // never allocated
    kFreed,  // freed; the block is known if it was lately
    kLive,
    kBusy,  // not known: the heap is in use
  };
  Kind kind = Kind::kNever;
  Block block;  // its size is 0 if it is not known
};

// Blocks that were looked up lately, to be found again without a lock.
// Thread-safe, except for what is said below.
class RecentBlocks {
 public:
  // The block that `address` is in, its end not counted; nothing if it is not
  // among them.
  std::optional<Block> find(uintptr_t address) const;
  // Whether [address, address + size) is known to lie inside one of them.
  bool holds(uintptr_t address, size_t size) const;
  // Keeps the block of `address`. Not while another thread calls forget().
  void remember(uintptr_t address, const Block& block);
  // To be called before a block goes.
  void forget();

 private:
  struct alignas(32) Slot {
    // Odd while somebody writes. Who reads and sees it change has read nothing.
    std::atomic<uint64_t> version{0};
    std::atomic<uintptr_t> base{0};
    std::atomic<size_t> size{0};
  };
  static constexpr size_t kSlots = 16;
  static constexpr int kRegionBits = 21;  // of addresses that share a slot

  static size_t index_of(uintptr_t address) {
    return (address >> kRegionBits) % kSlots;
  }

  std::array<Slot, kSlots> slots_;
};

// Not through find(): this is asked several times for every launch.
inline bool RecentBlocks::holds(uintptr_t address, size_t size) const {
  const Slot& slot = slots_[index_of(address)];
  const uint64_t version = slot.version.load(std::memory_order_acquire);
  const Block block{slot.base.load(std::memory_order_acquire),
                    slot.size.load(std::memory_order_acquire)};
  return version % 2 == 0 &&
         slot.version.load(std::memory_order_relaxed) == version &&
         block.contains(address, size);
}

// Hands out addresses, best fit, and finds the allocation of an address.
// Freed neighbours become one piece again. Memory of freed blocks is kept for
// the next ones up to a bound; beyond it, `give_back` is told to return the
// largest pieces.
// Thread-safe: looking up shares a lock, unless the block was looked up lately;
// allocating and freeing take it.
class Heap {
 public:
  using GiveBack = std::function<void(uintptr_t address, size_t size)>;

  // Manages [base, base + size), of which at most `limit` bytes are allocated
  // at a time.
  Heap(uintptr_t base, size_t size, size_t limit, GiveBack give_back);

  // Returns the address of `size` > 0 new bytes, or nothing if there are not so
  // many, or not in one piece.
  std::optional<uintptr_t> allocate(size_t size);

  // Makes [address, address + size) a live block, where another process has
  // chosen the address. Returns false, and changes nothing, if it is not a free
  // part of the range or above the limit.
  bool place(uintptr_t address, size_t size);

  // Freeing has two steps, because the owner waits in between for work that
  // still uses the block. begin_free says whether `address` is the start of a
  // live block that nobody is freeing yet; end_free lets it go.
  bool begin_free(uintptr_t address);
  void end_free(uintptr_t address);

  // Frees everything at once and hands out nothing from then on.
  void close();

  // Finds the live block that `address` is in; the end counts as inside, so
  // that a pointer one past the last byte is known.
  std::optional<Block> find(uintptr_t address) const;

  // Whether [address, address + size) lies inside one live block.
  bool holds(uintptr_t address, size_t size) const {
    if (recent_.holds(address, size)) [[likely]]
      return true;
    const auto block = find(address);
    return block && block->contains(address, size);
  }

  // Says what is known of an address. For reports: with `patient` false it
  // gives up after a while instead of waiting for the lock.
  Trace trace(uintptr_t address, bool patient) const;

  bool covers(uintptr_t address) const { return address - base_ < size_; }
  size_t limit() const { return limit_; }
  size_t available() const;
  size_t largest_piece() const;
  size_t live() const;

 private:
  struct LiveBlock {
    size_t size;    // as asked for
    size_t extent;  // rounded up
    bool dying;
  };
  struct FreePiece {
    size_t size;
    // About so many bytes hold memory. An estimate: blocks are cut from the
    // front of a piece, so the part that was never used is at its end.
    size_t used_before;
  };
  using LiveMap = std::map<uintptr_t, LiveBlock>;
  using FreeMap = std::map<uintptr_t, FreePiece>;

  std::optional<Block> find_locked(uintptr_t address) const
      REQUIRES_SHARED(mutex_);
  Trace trace_locked(uintptr_t address) const REQUIRES_SHARED(mutex_);
  void add_piece(uintptr_t address, FreePiece piece) REQUIRES(mutex_);
  FreePiece take_piece(FreeMap::iterator place) REQUIRES(mutex_);
  void give_back_excess() REQUIRES(mutex_);
  void remember(uintptr_t base, size_t size) REQUIRES(mutex_);

  const uintptr_t base_;
  const size_t size_;
  const size_t limit_;
  const GiveBack give_back_;

  mutable SharedMutex mutex_;
  mutable RecentBlocks recent_;  // of live_; changed under mutex_, if shared
  LiveMap live_ GUARDED_BY(mutex_);
  FreeMap free_ GUARDED_BY(mutex_);
  // free_, by size.
  std::set<std::pair<size_t, uintptr_t>> by_size_ GUARDED_BY(mutex_);
  size_t allocated_ GUARDED_BY(mutex_) = 0;
  size_t kept_ GUARDED_BY(mutex_) = 0;  // sum of used_before over free_
  bool closed_ GUARDED_BY(mutex_) = false;
  // Nothing from here on was ever used.
  uintptr_t highest_ GUARDED_BY(mutex_);
  std::vector<Block> freed_ GUARDED_BY(mutex_);  // a ring of the latest
  size_t freed_count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace openreg
