// The parts that all isolated devices of a program share: the table of fences,
// the memory that copies are staged in, and how the devices find each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/heap.h"
#include "core/shared_memory.h"
#include "core/status.h"
#include "core/thread_safety.h"
#include "isolated/protocol.h"

namespace openreg {

class Context;
class IsolatedHardware;
class Staging;

// Note [Fences]
// A queue is a slot of one table that every process has: how far it has come,
// so that devices wait for each other without the program's help. A slot that
// is used again goes on from the number where it was, which is at least every
// number that anybody waits for: so a late waiter is let through, never held.
// Only the device that works on a queue advances its number, so a slot whose
// queue still has work is not used again before that is done.
class IsolatedWorld {
 public:
  // Made on first use, never deleted.
  static IsolatedWorld& get();

  // Makes the shared memory, once.
  //   orErrorNotInitialized  the system does not give it
  Status open();

  const SharedMemory& fences() const { return fences_; }
  const SharedMemory& staging() const { return staging_; }

  wire::FenceSlot& slot(uint32_t index) const {
    return reinterpret_cast<wire::FenceSlot*>(fences_.data())[index];
  }
  // The slot of a queue, by the number that says how far it has come.
  uint32_t index_of(const Timeline& done) const {
    const auto offset = reinterpret_cast<uintptr_t>(&done) -
                        reinterpret_cast<uintptr_t>(fences_.data());
    return static_cast<uint32_t>(offset / sizeof(wire::FenceSlot));
  }
  // Takes a slot. False if there is none.
  bool take_slot(uint32_t* index);
  // Gives a slot back, whose queue ends with the number `last`.
  void return_slot(uint32_t index, uint64_t last);

  // The hardware of a context, which another device needs for a copy. Each adds
  // itself, and lives as long as its context.
  void add_hardware(const Context& context, IsolatedHardware& hardware);
  void remove_hardware(const Context& context);
  IsolatedHardware& hardware_of(const Context& context);

  // Takes staging memory; waits until there is some.
  std::byte* take_staging(size_t size);
  void return_staging(std::byte* piece);
  // Holds staging memory until the queue of a slot has come to a number, and
  // somebody takes some.
  void hold_staging(std::shared_ptr<const Staging> staging, uint32_t index,
                    uint64_t number);

 private:
  struct Returned {
    uint32_t index;
    uint64_t last;
  };
  struct Held {
    std::shared_ptr<const Staging> staging;
    uint32_t index;
    uint64_t number;
  };

  IsolatedWorld() = default;

  // Lets go of the staging memory that no queue uses any more.
  void release_unused();

  SharedMemory fences_;
  SharedMemory staging_;
  std::unique_ptr<Heap> staging_heap_;
  ConditionVariable staging_returned_;

  Mutex mutex_;
  bool is_open_ GUARDED_BY(mutex_) = false;
  uint32_t used_slots_ GUARDED_BY(mutex_) = 0;
  std::deque<Returned> free_slots_ GUARDED_BY(mutex_);
  std::vector<Held> held_ GUARDED_BY(mutex_);
  std::map<const Context*, IsolatedHardware*> hardware_ GUARDED_BY(mutex_);
};

// Staging memory, until it goes. Movable.
class Staging {
 public:
  explicit Staging(size_t size)
      : data_(IsolatedWorld::get().take_staging(size)) {}
  Staging(Staging&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)) {}
  Staging& operator=(Staging&&) = delete;
  ~Staging() {
    if (data_ != nullptr) IsolatedWorld::get().return_staging(data_);
  }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

}  // namespace openreg
