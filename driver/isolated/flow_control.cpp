#include "isolated/flow_control.h"

namespace openreg {

namespace {

// A stream that holds more than this makes its producers wait.
constexpr size_t kMostPendingBytes = size_t{16} << 20;
// How exactly that is known.
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
