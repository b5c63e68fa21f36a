// Pinned memory: host memory that every device can reach by itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "core/heap.h"
#include "core/mapping.h"
#include "core/shared_memory.h"
#include "core/status.h"
#include "core/thread_safety.h"

namespace openreg {

// How the driver sees a range of host memory.
enum class HostKind { kPageable, kPinned, kPartlyPinned };

// Allocates pinned memory from one reserved range, and keeps the ranges that
// users have registered. Thread-safe; questions about the own range share a
// lock, questions about other addresses take none while nothing is registered.
class HostMemory {
 public:
  // Has the range that memory is allocated from be memory that processes can
  // share. To be called before anything else.
  void share() { shared_ = true; }

  // Reserves the range on first use; and the memory that it is, if shared.
  //   orErrorOutOfMemory  there is no address space for it
  Status open();
  const SharedMemory& shared_arena() const { return shared_arena_; }

  // Whether `pointer` lies in the range that memory is allocated from.
  bool is_own(const void* pointer) const {
    const Heap* heap = heap_.load(std::memory_order_acquire);
    return heap != nullptr &&
           heap->covers(reinterpret_cast<uintptr_t>(pointer));
  }

  //   orErrorOutOfMemory  the host has not enough memory or address space
  Status allocate(size_t size, void** pointer);

  // As Heap: the owner waits for work between the two.
  Status begin_free(void* pointer);
  void end_free(void* pointer);

  //   orErrorInvalidValue  not mapped, or overlaps pinned memory
  Status add_range(void* pointer, size_t size);
  //   orErrorInvalidValue  not the start of a registered range
  Status begin_remove_range(void* pointer);
  void end_remove_range(void* pointer);

  // Finds the pinned allocation or registered range that `pointer` is in.
  std::optional<Block> find(const void* pointer) const;

  // Says what [pointer, pointer + size) is.
  HostKind classify(const void* pointer, size_t size) const;

  size_t live() const;

  // Whether anybody has asked for pinned memory.
  bool was_used() const { return used_.load(std::memory_order_acquire); }

 private:
  struct Range {
    size_t size;
    bool dying;
  };

  bool reserve(size_t size) REQUIRES(open_mutex_);
  bool overlaps_arena(uintptr_t address, size_t size) const;
  std::optional<Block> find_range(uintptr_t address) const
      REQUIRES_SHARED(ranges_mutex_);
  bool overlaps_range(uintptr_t address, size_t size) const
      REQUIRES_SHARED(ranges_mutex_);

  std::atomic<bool> used_{false};

  Mutex open_mutex_;
  bool shared_ = false;
  Mapping arena_ GUARDED_BY(open_mutex_);
  SharedMemory shared_arena_;  // the same instead, if shared_
  uintptr_t base_ = 0;
  std::unique_ptr<Heap> owned_heap_ GUARDED_BY(open_mutex_);
  std::atomic<Heap*> heap_{nullptr};

  mutable SharedMutex ranges_mutex_;
  std::map<uintptr_t, Range> ranges_ GUARDED_BY(ranges_mutex_);
  std::atomic<size_t> range_count_{0};
};

}  // namespace openreg
