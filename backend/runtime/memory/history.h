// The history of the allocator: what is recorded, and the latest actions.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/runtime/memory/block.h"

namespace torch_openreg::memory {

using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

// The settings of the history, for all devices. Thread-safe.
class HistorySettings {
 public:
  // Nothing is recorded without `enabled`.
  void set(bool enabled, CreateContextFn make_context, RecordContext when);

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  // The context of the caller if contexts are recorded at that level. May need
  // the GIL: not to be called with a lock held.
  Context gather(RecordContext level) const;

  // Whether entries of the history keep their contexts.
  bool keeps_contexts() const {
    return when_.load(std::memory_order_relaxed) >= RecordContext::ALLOC;
  }

  // Turns the times of entries into microseconds since 1970.
  void convert_times(std::vector<TraceEntry>& entries);

 private:
  std::atomic<bool> enabled_{false};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  std::atomic<CreateContextFn> make_context_{nullptr};
  std::mutex clock_mutex_;
  std::optional<c10::ApproximateClockToUnixTimeConverter> clock_;
};

// The latest actions on one device. Guarded by the lock of its cache.
class Trace {
 public:
  // Keeps the latest `max_entries`, and of those that it has only those with
  // `keep`. Returns what it forgets: see Note [Contexts die without a lock].
  [[nodiscard]] std::vector<TraceEntry> restart(size_t max_entries, bool keep);

  // The context of an entry that falls out goes to `dead`.
  void add(TraceEntry entry, DeadContexts& dead);

  // Oldest first.
  std::vector<TraceEntry> entries() const;

 private:
  size_t max_entries_ = 0;
  size_t oldest_ = 0;  // 0 until the ring is full
  std::vector<TraceEntry> ring_;
};

}  // namespace torch_openreg::memory
