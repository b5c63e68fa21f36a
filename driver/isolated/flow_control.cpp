#include "isolated/flow_control.h"

#include "core/queue.h"

namespace openreg {

namespace {

// How exactly it is known what a stream holds.
constexpr size_t kMarkBytes = size_t{64} << 10;

}  // namespace

void FlowControl::add(uint64_t sequence, size_t bytes) {
  const MutexLock lock(mutex_);
  sent_ += bytes;
  const size_t marked = marks_.empty() ? done_ : marks_.back().total;
  if (sent_ - marked >= kMarkBytes) marks_.push_back({sequence, sent_});
}

std::optional<uint64_t> FlowControl::obstacle() {
  const MutexLock lock(mutex_);
  while (!marks_.empty() && timeline_.reached(marks_.front().sequence)) {
    done_ = marks_.front().total;
    marks_.pop_front();
  }
  if (marks_.empty() || sent_ - done_ <= kMostPendingBytes) return std::nullopt;
  return marks_.front().sequence;
}

}  // namespace openreg
