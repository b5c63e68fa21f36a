// The objects behind handles of one kind.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/handle.h"
#include "core/thread_safety.h"

namespace openreg {

// Maps handles to objects. A handle that was removed is never found again, and
// an object that somebody is using is not destroyed under them.
// Thread-safe. Looking up takes no lock: one compare-and-swap on the object's
// own slot. Adding and removing take a lock.
template <typename T>
class HandleTable {
  struct Slot {
    // Generation in the upper half; in the lower, the number of users, plus one
    // for the table itself while the handle is valid.
    std::atomic<uint64_t> state{0};
    std::shared_ptr<T> object;
    Handle handle{};
    uint32_t index = 0;
    Slot* next_free = nullptr;  // guarded by the table's mutex
  };

 public:
  // A million.
  static constexpr uint32_t kMaxObjects = 1u << Handle::kIndexBits;

  // Keeps an object alive and in place. Not thread-safe itself.
  class Ref {
   public:
    Ref() = default;
    Ref(HandleTable* table, Slot* slot) : table_(table), slot_(slot) {}
    Ref(Ref&& other) noexcept
        : table_(other.table_), slot_(std::exchange(other.slot_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Ref() {
      if (slot_ != nullptr) table_->release(*slot_);
    }

    explicit operator bool() const { return slot_ != nullptr; }
    T* get() const { return slot_->object.get(); }
    T* operator->() const { return get(); }
    T& operator*() const { return *get(); }

   private:
    HandleTable* table_ = nullptr;
    Slot* slot_ = nullptr;
  };

  explicit HandleTable(HandleKind kind) : kind_(kind) {}
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // Adds an object of a device's life. Returns the handle as a pointer, or null
  // if the table holds kMaxObjects.
  void* insert(std::shared_ptr<T> object, int device, uint64_t epoch) {
    const MutexLock lock(mutex_);
    Slot* slot = take_slot();
    if (slot == nullptr) return nullptr;
    const uint64_t generation =
        slot->state.load(std::memory_order_relaxed) >> kGenerationShift;
    Handle& handle = slot->handle;
    handle.index = slot->index;
    handle.generation = generation;
    handle.epoch = Handle::epoch_bits(epoch);
    handle.device = static_cast<uint64_t>(device);
    handle.kind = static_cast<uint64_t>(kind_);
    void* const pointer = handle.to_pointer();
    slot->object = std::move(object);
    live_.fetch_add(1, std::memory_order_relaxed);
    slot->state.store((generation << kGenerationShift) | 1,
                      std::memory_order_release);
    return pointer;
  }

  // Finds a live object; an empty Ref if there is none.
  Ref find(const void* pointer) {
    const Handle handle = Handle::from(pointer);
    if (handle.handle_kind() != kind_) return {};
    Slot* slot = slot_at(handle.index);
    if (slot == nullptr || !acquire(*slot, handle.generation)) return {};
    Ref ref(this, slot);
    if (slot->handle.to_pointer() != pointer) return {};
    return ref;
  }

  // Makes the handle invalid. The object goes when its last user is done.
  // Returns the object, or null if there is none.
  std::shared_ptr<T> remove(const void* pointer) {
    Ref ref = find(pointer);
    if (!ref) return nullptr;
    const Handle handle = Handle::from(pointer);
    Slot* slot = slot_at(handle.index);
    std::shared_ptr<T> object = slot->object;
    uint64_t state = slot->state.load(std::memory_order_relaxed);
    do {
      if (state >> kGenerationShift != handle.generation) return nullptr;
    } while (!slot->state.compare_exchange_weak(state, next_generation(state),
                                                std::memory_order_acq_rel));
    live_.fetch_sub(1, std::memory_order_relaxed);
    release(*slot);  // the table's own use
    return object;
  }

  // Removes every object that `is_match` picks.
  template <typename Predicate>
  void remove_if(const Predicate& is_match) {
    uint32_t count = 0;
    {
      const MutexLock lock(mutex_);
      count = count_;
    }
    for (uint32_t index = 0; index < count; ++index) {
      Slot* slot = slot_at(index);
      const uint64_t state = slot->state.load(std::memory_order_acquire);
      if (!acquire(*slot, state >> kGenerationShift)) continue;
      Ref ref(this, slot);
      if (is_match(*ref)) remove(slot->handle.to_pointer());
    }
  }

  size_t live() const { return live_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kGenerationShift = 32;
  static constexpr uint32_t kChunkSize = 1024;
  using Chunk = std::array<Slot, kChunkSize>;

  // The state with the next generation and the same users.
  static uint64_t next_generation(uint64_t state) {
    const uint64_t mask = (uint64_t{1} << Handle::kGenerationBits) - 1;
    const uint64_t generation = ((state >> kGenerationShift) + 1) & mask;
    return (generation << kGenerationShift) | (state & UINT32_MAX);
  }

  Slot* slot_at(uint64_t index) const {
    Chunk* chunk = chunks_[index / kChunkSize].load(std::memory_order_acquire);
    return chunk != nullptr ? &(*chunk)[index % kChunkSize] : nullptr;
  }

  static bool acquire(Slot& slot, uint64_t generation) {
    uint64_t state = slot.state.load(std::memory_order_acquire);
    do {
      if (state >> kGenerationShift != generation) return false;
      if ((state & UINT32_MAX) == 0) return false;
    } while (!slot.state.compare_exchange_weak(state, state + 1,
                                               std::memory_order_acq_rel));
    return true;
  }

  void release(Slot& slot) {
    const uint64_t before = slot.state.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & UINT32_MAX) != 1) return;
    std::shared_ptr<T> object = std::move(slot.object);
    const MutexLock lock(mutex_);
    slot.next_free = nullptr;
    (last_free_ != nullptr ? last_free_->next_free : first_free_) = &slot;
    last_free_ = &slot;
    ++free_count_;
  }

  Slot* take_slot() REQUIRES(mutex_) {
    // Slots rest a while before they are used again, so that the generation of
    // a forgotten handle takes long to come round.
    const uint32_t enough = count_ == kMaxObjects ? 0 : kChunkSize;
    if (free_count_ > enough) {
      Slot* slot = first_free_;
      first_free_ = slot->next_free;
      if (first_free_ == nullptr) last_free_ = nullptr;
      --free_count_;
      return slot;
    }
    if (count_ == kMaxObjects) return nullptr;
    if (count_ % kChunkSize == 0) {
      chunks_[count_ / kChunkSize].store(new Chunk, std::memory_order_release);
    }
    Slot* slot = slot_at(count_);
    slot->index = count_++;
    return slot;
  }

  const HandleKind kind_;
  std::array<std::atomic<Chunk*>, kMaxObjects / kChunkSize> chunks_{};
  std::atomic<size_t> live_{0};

  Mutex mutex_;
  uint32_t count_ GUARDED_BY(mutex_) = 0;  // slots that exist
  uint32_t free_count_ GUARDED_BY(mutex_) = 0;
  Slot* first_free_ GUARDED_BY(mutex_) = nullptr;  // the longest free
  Slot* last_free_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace openreg
