#include "core/failure_state.h"

#include <utility>

namespace openreg {

namespace {

// As a call reports it that has nothing to do with it.
Status as_earlier(const Status& status) {
  return {status.code(), OPENREG_EARLIER_FAILURE + status.message()};
}

}  // namespace

bool FailureState::is_sticky(orError_t code) const {
  return keeps_all() || code == orErrorIllegalAddress ||
         code == orErrorDeviceLost;
}

void FailureState::report(const Status& status) {
  if (sink_ != nullptr) sink_(status);
  const MutexLock lock(mutex_);
  if (is_broken()) return;
  if (is_sticky(status.code())) {
    first_ = as_earlier(status);
    others_ = 0;
    broken_.store(true, std::memory_order_release);
  } else if (!first_.ok()) {
    ++others_;
  } else {
    first_ = as_earlier(status);
  }
  pending_.store(true, std::memory_order_release);
}

void FailureState::collect() {
  const MutexLock lock(collect_mutex_);
  FailureSource* const source = source_.load(std::memory_order_acquire);
  while (source != nullptr && source->has_news()) {
    source->next([this](const Status& status) { report(status); });
  }
}

Status FailureState::take_pending() {
  const MutexLock lock(mutex_);
  if (is_broken() || first_.ok()) return first_;
  Status first = std::exchange(first_, Status());
  const int others = std::exchange(others_, 0);
  pending_.store(false, std::memory_order_release);
  if (others == 0) return first;
  return failure(first.code(), "%s (and %d more failed since)",
                 first.message().c_str(), others);
}

Status FailureState::sticky() const {
  if (!is_broken()) return {};
  const MutexLock lock(mutex_);
  return first_;
}

}  // namespace openreg
