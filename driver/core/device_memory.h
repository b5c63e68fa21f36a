// The memory of one life of a device: its addresses, its bytes, its limit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "core/heap.h"
#include "core/mapping.h"
#include "core/status.h"

namespace openreg {

// Note [Device addresses]
// A device pointer lies in a range that this process has reserved and never
// maps, so the host faults when it follows one. Kernels of the in-process
// driver reach the bytes through a second, usable range, the view, at a
// constant distance; of the isolated driver only the device process has it.
// Between the two lies a gap, so that a host that runs off the end of a device
// range does not arrive in the view by accident.
// A reset makes new ranges; the old device range stays reserved, so that an
// old pointer never names new memory.

// The failure of a call that meets a reset by another thread.
Status being_reset(int device);

// Thread-safe after open().
class DeviceMemory {
 public:
  explicit DeviceMemory(int device) : device_(device) {}

  // Reserves addresses for `limit` bytes and room against fragmentation, and
  // the view, unless the bytes are in another process. Takes less where the
  // address space is limited to `share` bytes: limit() tells.
  //   orErrorNotInitialized  not even a small range can be had
  Status open(size_t limit, size_t share, bool has_view);

  // In a device process: the addresses are those that the program has reserved.
  //   orErrorNotInitialized  the view cannot be had
  Status open_view(uintptr_t base, size_t size, size_t limit);

  // Frees everything and gives the view back. Waits for visitors. The addresses
  // stay reserved until forget() is called.
  void close();

  // Gives the reserved addresses back as well. Returns whether there were any.
  bool forget();

  //   orErrorOutOfMemory    the message has the free memory
  //   orErrorInvalidDevice  it was closed meanwhile
  Status allocate(size_t size, void** pointer);

  Heap& heap() { return *heap_; }
  const Heap& heap() const { return *heap_; }
  size_t limit() const { return limit_; }
  uintptr_t base() const { return addresses_.address(); }
  size_t size() const { return size_; }

  bool covers(const void* pointer) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const uintptr_t base = base_.load(std::memory_order_acquire);
    return base != 0 && address - base < size_;
  }

  // Whether any address is covered: open, and not forgotten.
  bool covers_any() const { return base_.load(std::memory_order_acquire) != 0; }

  // Where kernels and copies find the byte that `pointer` names. Requires
  // covers(pointer) or one past an allocation's end.
  void* view(const void* pointer) const {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(pointer) +
                                   distance_);
  }

  // The same for a range that has to lie inside one live allocation; null if it
  // does not.
  void* find_view(const void* pointer, size_t size) const;

  // Holds the view in place for a visitor: work of another device. Own work
  // needs none, because a reset ends it first. Does not own the lock if the
  // memory is closed.
  std::shared_lock<std::shared_mutex> visit() const;

  // Waits for the visitors of the moment.
  void wait_for_visitors() const { const std::lock_guard lock(visitors_); }

  // Says in words what `pointer` is, for messages: "inside a freed allocation
  // of 64 bytes at 0x…".
  std::string describe(const void* pointer) const;

 private:
  bool reserve_view(size_t size);
  void make_heap(uintptr_t base, size_t size, size_t limit);

  const int device_;
  size_t limit_ = 0;
  size_t size_ = 0;
  uintptr_t distance_ = 0;
  Mapping addresses_;
  Mapping view_;
  std::atomic<uintptr_t> base_{0};  // set last: until then nothing is covered
  std::unique_ptr<Heap> heap_;

  // Not a SharedMutex: visit() hands the lock out, and the analysis does not
  // follow it.
  mutable std::shared_mutex visitors_;
  bool closed_ = false;  // guarded by visitors_
};

}  // namespace openreg
