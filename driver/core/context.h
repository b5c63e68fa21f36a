// One life of a device, from its first use or its reset to the next reset.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/config.h"
#include "core/device_memory.h"
#include "core/failure_state.h"
#include "core/hardware.h"
#include "core/queue_list.h"
#include "core/surroundings.h"
#include "core/thread_safety.h"

namespace openreg {

class Stream;

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -3;

// Bytes of arguments that one launch may carry.
inline constexpr size_t kMaxKernelArguments = size_t{4} << 20;

// Owns the memory, the streams' queues and the failure of that life. A context
// is never deleted: a closed one is an empty shell that says what its addresses
// were. Thread-safe.
class Context {
 public:
  // `previous` is the life before, or null.
  Context(const Config& config, int device, uint64_t epoch, Context* previous,
          Surroundings& surroundings, HardwareMaker make_hardware);
  // The life as its device process knows it: without hardware, so it has no
  // streams and allocates nothing. What it runs comes from the program.
  Context(const Config& config, int device, uint64_t epoch,
          Surroundings& surroundings);
  ~Context();

  // Reserves the addresses; see DeviceMemory::open.
  Status open() {
    return memory_.open(config_.memory_per_device, config_.address_share,
                        hardware_->has_bytes());
  }
  // Starts the hardware, after open().
  Status start() { return hardware_->open(); }

  // Allocates device memory; and frees it, after Heap::begin_free and when no
  // work uses it any more.
  Status allocate(size_t size, void** pointer);
  void end_free(uintptr_t address);

  const Config& config() const { return config_; }
  int device() const { return device_; }
  uint64_t epoch() const { return epoch_; }
  Context* previous() const { return previous_; }
  DeviceMemory& memory() { return memory_; }
  const DeviceMemory& memory() const { return memory_; }
  FailureState& failures() { return failures_; }
  Hardware& hardware() { return *hardware_; }
  Surroundings& surroundings() const { return surroundings_; }

  // Creates a stream. One of a closed context refuses all work. The queue stays
  // with the context until retire() and its work are done. Null if the hardware
  // has no more queues.
  std::shared_ptr<Stream> create_stream(unsigned int flags, int priority);
  Stream& default_stream();
  void retire(const Queue& queue) { queues_.retire(queue); }

  // Waits until everything that was submitted before is done.
  void synchronize() { queues_.wait(); }

  QueueList::Load load() { return queues_.load(); }

  // Makes `stream` wait for what an action on it has to follow by the rules of
  // the default stream; see orStreamDefault.
  Status order(const Stream& stream);

  // Ends this life: drops queued work, waits for what runs, frees all memory.
  void close();
  // The same for the end of the program, without freeing, and not for longer
  // than `limit`. Returns whether nothing runs any more.
  bool stop(std::chrono::nanoseconds limit) {
    hardware_->close();
    return queues_.stop(limit);
  }
  bool is_closed() const { return closed_.load(std::memory_order_acquire); }

  // Whether kernels here may use the memory of `device`.
  bool may_access(int device) const {
    return (peers_.load(std::memory_order_acquire) & bit(device)) != 0;
  }
  // Gives or takes that permission. Returns false if it was so already.
  bool set_access(int device, bool allowed);

  // Notes that a stream of another device holds work on this memory, up to
  // `fence`; and waits for all such work.
  void note_visit(Fence fence);
  void wait_for_visits();

 private:
  static uint64_t bit(int device) { return uint64_t{1} << device; }

  const Config& config_;
  const int device_;
  const uint64_t epoch_;
  Context* const previous_;
  Surroundings& surroundings_;
  DeviceMemory memory_;
  FailureState failures_;
  std::unique_ptr<Hardware> hardware_;  // null in a device process
  QueueList queues_;
  std::atomic<uint64_t> peers_{0};
  std::atomic<bool> closed_{false};
  std::atomic<Stream*> default_stream_{nullptr};

  Mutex mutex_;
  std::shared_ptr<Stream> owned_default_stream_ GUARDED_BY(mutex_);
  std::vector<Fence> visits_ GUARDED_BY(mutex_);
};

}  // namespace openreg
