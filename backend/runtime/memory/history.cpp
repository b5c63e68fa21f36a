#include "backend/runtime/memory/history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace torch_openreg::memory {

void HistorySettings::set(bool enabled, CreateContextFn make_context,
                          RecordContext when) {
  if (enabled) {
    // The clock measures its own speed from here to the conversion.
    const std::lock_guard lock(clock_mutex_);
    if (!clock_) clock_.emplace();
  }
  make_context_ = enabled ? make_context : nullptr;
  when_ = enabled ? when : RecordContext::NEVER;
  enabled_ = enabled;
}

Context HistorySettings::gather(RecordContext level) const {
  if (C10_LIKELY(when_.load(std::memory_order_relaxed) < level)) return nullptr;
  const CreateContextFn make_context = make_context_;
  return make_context != nullptr ? make_context() : nullptr;
}

void HistorySettings::convert_times(std::vector<TraceEntry>& entries) {
  if (entries.empty()) return;
  const std::lock_guard lock(clock_mutex_);
  const auto nanoseconds = clock_->makeConverter();
  for (TraceEntry& entry : entries) {
    entry.time_.t_ = nanoseconds(entry.time_.approx_t_) / 1000;
  }
}

std::vector<TraceEntry> Trace::restart(size_t max_entries, bool keep) {
  ring_ = entries();
  oldest_ = 0;
  max_entries_ = max_entries;
  const size_t kept = keep ? std::min(ring_.size(), max_entries) : 0;
  const auto end = ring_.end() - static_cast<std::ptrdiff_t>(kept);
  std::vector<TraceEntry> forgotten(std::make_move_iterator(ring_.begin()),
                                    std::make_move_iterator(end));
  ring_.erase(ring_.begin(), end);
  return forgotten;
}

void Trace::add(TraceEntry entry, DeadContexts& dead) {
  if (ring_.size() < max_entries_) {
    ring_.push_back(std::move(entry));
    return;
  }
  if (ring_.empty()) return;
  std::swap(ring_[oldest_], entry);
  if (entry.context_) dead.push_back(std::move(entry.context_));
  oldest_ = (oldest_ + 1) % ring_.size();
}

std::vector<TraceEntry> Trace::entries() const {
  std::vector<TraceEntry> result(ring_);
  std::rotate(result.begin(),
              result.begin() + static_cast<std::ptrdiff_t>(oldest_),
              result.end());
  return result;
}

}  // namespace torch_openreg::memory
