// The allocator of device memory: caching and stream-ordered, with the
// behaviour, statistics and snapshots of CUDA's.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/export.h"
#include "backend/runtime/stream.h"

namespace torch_openreg {

// The result of snapshot(), in the format of CUDA's caching allocator. Times
// are microseconds since 1970 (TraceEntry::time_.t_).
struct MemorySnapshot {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;
  // By device; oldest first.
  std::vector<std::vector<c10::CachingDeviceAllocator::TraceEntry>> traces;
};

// Blocks are given to the stream that is current at the allocation, reused on
// it at once after they were freed, and on it alone; work of other streams is
// made known by recordStream. Each device has its own lock. What is allocated
// in a scope of a memory pool (mem_pool.h) is that pool's. Thread-safe.
//
// No function initialises a device that was not used, except those that
// allocate. A negative device is the current one. The settings are PyTorch's
// (PYTORCH_ALLOC_CONF); there are no expandable segments. A device that was
// reset with the driver's API, and not by reset_device, has lost its memory:
// call emptyCache after it.
class TORCH_OPENREG_API OpenRegDeviceAllocator final
    : public c10::DeviceAllocator {
 public:
  // The only one; it is never destroyed.
  static OpenRegDeviceAllocator& get();

  // On the current device and its current stream. 0 bytes give a null pointer
  // with the device. Throws c10::OutOfMemoryError after the cache was emptied
  // in vain; the process can go on.
  c10::DataPtr allocate(size_t size) override;
  // The same on `device`, which must exist, and its current stream.
  c10::DataPtr allocate_on(c10::DeviceIndex device, size_t size);
  c10::DeleterFnPtr raw_deleter() const override;
  // Between any two pointers, in the order of the current stream; waits if one
  // of them is host memory.
  void copy_data(void* dst, const void* src, std::size_t count) const override;

  bool initialized() override;
  // Gives the unused segments of every device back. Waits for the work on
  // blocks that other streams have used, and for all work of the devices that
  // have unused segments. Memory pools (mem_pool.h) keep theirs while they
  // live; their memory is given back, live or not, by their own id.
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override;
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  // Free and total bytes, as the driver counts them.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;

  // A block without a DataPtr, for the given stream of its device; and its end.
  // raw_delete of a pointer that is no live block throws c10::Error.
  void* raw_alloc(size_t size, const OpenRegStream& stream);
  void raw_delete(void* ptr);

  // The device was reset: its memory is gone. What was allocated before may
  // still be freed, which does nothing. Limits and recording stay as they are.
  void forget_device(c10::DeviceIndex device);

  // How much of a device's memory may be reserved: a number in [0, 1], at first
  // 1. Throws c10::Error for any other.
  void set_memory_fraction(double fraction, c10::DeviceIndex device);
  double memory_fraction(c10::DeviceIndex device);

  // The start of the segment that `ptr` lies in, and its size.
  std::pair<void*, size_t> base_allocation(void* ptr);

  // From now on keeps the latest `max_entries` actions of each device, with the
  // context that `make_context` gives (null: none) as far as `when` says. Off:
  // keeps nothing. With `clear_history`, forgets what was kept.
  void record_history(bool enabled,
                      c10::CachingDeviceAllocator::CreateContextFn make_context,
                      size_t max_entries,
                      c10::CachingDeviceAllocator::RecordContext when,
                      bool clear_history);
  bool is_recording_history() const;
  MemorySnapshot snapshot();

 private:
  class Impl;
  OpenRegDeviceAllocator();
  ~OpenRegDeviceAllocator() override;
  static void delete_block(void* ptr);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace torch_openreg
