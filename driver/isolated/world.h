// What all isolated devices of a program share: the table of fences and the
// memory that copies are staged in.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/heap.h"
#include "core/shared_memory.h"
#include "core/status.h"
#include "isolated/protocol.h"

namespace openreg {

// Note [Fences]
// A queue is a slot of one table that every process has: how far it has come,
// so that devices wait for each other without the program's help. A slot that
// is used again goes on from the number where it was, which is at least every
// number that anybody waits for: so a late waiter is let through, never held.
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
  // Takes a slot. False if there is none.
  bool take_slot(uint32_t* index);
  void return_slot(uint32_t index);

  // Takes staging memory; waits until there is some.
  std::byte* take_staging(size_t size);
  void return_staging(std::byte* piece);

 private:
  IsolatedWorld() = default;

  SharedMemory fences_;
  SharedMemory staging_;
  std::unique_ptr<Heap> staging_heap_;
  std::condition_variable staging_returned_;

  std::mutex mutex_;
  bool is_open_ = false;              // guarded by mutex_
  uint32_t used_slots_ = 0;           // guarded by mutex_
  std::vector<uint32_t> free_slots_;  // guarded by mutex_
};

// Staging memory for a scope. Movable.
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
