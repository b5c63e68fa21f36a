// The blocks that the device allocator hands out, and the segments that they
// are cut from.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "backend/runtime/stream.h"

namespace torch_openreg::memory {

struct Block;
class BlockPool;
class DeviceCache;
struct PoolPair;

using Context = std::shared_ptr<c10::GatheredContext>;

// Note [Contexts die without a lock]
// A context may hold Python frames, and its end may need the GIL, which a
// thread that waits for our lock may hold. So contexts are gathered before the
// lock is taken, and those that are no longer wanted are moved here: an object
// that is declared before the lock and therefore ends after it.
using DeadContexts = std::vector<Context>;

// By stream, then size, then address.
struct BlockOrder {
  struct Key {
    c10::StreamId stream;
    size_t size;
  };
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const;
  bool operator()(const Block* a, const Key& b) const;
};
using FreeBlocks = std::set<Block*, BlockOrder>;

// One allocation of the driver: a row of blocks without gaps, all of them for
// the same stream.
struct Segment {
  ~Segment();

  DeviceCache* cache = nullptr;
  PoolPair* owner = nullptr;
  BlockPool* pool = nullptr;  // one of the pair
  char* base = nullptr;
  size_t size = 0;
  c10::StreamId stream = 0;
  orStream_t handle = nullptr;  // of that stream, for reports
  bool oversize = false;        // counted as such
  // Its memory has gone with a reset of the device; it is in no pool and in no
  // statistic, and ends with the last of its blocks that somebody has.
  std::atomic<bool> retired{false};  // written with the lock held
  size_t users = 0;                  // those blocks, once it is retired
  Block* first = nullptr;            // owns the row
  Context context;                   // of the allocation that needed it
};

// Guarded by the lock of its cache, except that whoever holds an allocated
// block may read all but its links.
struct Block {
  enum class State : uint8_t {
    kFree,       // in the pool
    kAllocated,  // somebody's
    kPending,    // given back, but other streams may still use it
  };

  bool is_split() const { return prev != nullptr || next != nullptr; }

  Segment* segment = nullptr;
  char* ptr = nullptr;
  size_t size = 0;
  size_t requested = 0;      // what was asked for; 0 if free
  c10::StreamId stream = 0;  // the segment's
  State state = State::kFree;
  bool oversize = false;  // counted as such
  // Allocated, but freed by who had it; see Note [Parked blocks].
  std::atomic<bool> parked{false};
  uint32_t events = 0;   // that it waits for, if pending
  uint64_t free_at = 0;  // the pool's clock when it became free
  Block* prev = nullptr;
  Block* next = nullptr;
  FreeBlocks::iterator place;              // in the pool, if free
  std::vector<OpenRegStream> other_users;  // streams besides its own
  Context context;                         // of the allocation
};

inline bool BlockOrder::operator()(const Block* a, const Block* b) const {
  if (a->stream != b->stream) return a->stream < b->stream;
  if (a->size != b->size) return a->size < b->size;
  return a->ptr < b->ptr;
}

inline bool BlockOrder::operator()(const Block* a, const Key& b) const {
  return a->stream != b.stream ? a->stream < b.stream : a->size < b.size;
}

inline Segment::~Segment() {
  for (Block* block = first; block != nullptr;) {
    const std::unique_ptr<Block> owned(block);
    block = block->next;
  }
}

}  // namespace torch_openreg::memory
