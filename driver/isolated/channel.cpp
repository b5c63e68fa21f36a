#include "isolated/channel.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace openreg {

namespace {

static_assert(sizeof(Timestamp) == sizeof(wire::StampWord));

// A device's report of a failure, made safe to use.
Status read_report(const wire::Report& report) {
  orError_t code = static_cast<orError_t>(report.code);
  if (!is_failure(code)) code = orErrorInternal;
  const size_t size = std::min<size_t>(report.size, report.message.size());
  return {code, std::string(report.message.data(), size)};
}

}  // namespace

std::shared_ptr<Channel> Channel::create() {
  SharedMemory life = SharedMemory::create("openreg-device", wire::kLifeBytes);
  if (!life) return nullptr;
  madvise(life.data(), life.size(), MADV_DONTFORK);
  void* const control = mmap(nullptr, wire::kRepliesOffset,
                             PROT_READ | PROT_WRITE, MAP_SHARED, life.fd(), 0);
  if (control == MAP_FAILED) return nullptr;
  madvise(control, wire::kRepliesOffset, MADV_DONTFORK);
  RingMapping ring = RingMapping::map(life.fd());
  if (!ring) return nullptr;
  return std::shared_ptr<Channel>(new Channel(
      std::move(life), *static_cast<wire::Control*>(control), std::move(ring)));
}

Channel::Channel(SharedMemory life, wire::Control& control, RingMapping ring)
    : life_(std::move(life)),
      control_(control),
      writer_(std::make_unique<RingWriter>(std::move(ring), control)) {}

Channel::~Channel() {
  // The mapping of the control block stays, without its memory.
  life_.give_back(0, wire::kLifeBytes);
}

void Channel::start() {
  const MutexLock lock(start_mutex_);
  if (started_.load(std::memory_order_relaxed)) return;
  const std::function<void()> starter = std::exchange(starter_, nullptr);
  if (starter != nullptr) starter();
  started_.store(true, std::memory_order_release);
}

uint32_t Channel::take_reply() {
  uint32_t index = 0;
  {
    const MutexLock lock(mutex_);
    reply_returned_.wait(mutex_, [this]() REQUIRES(mutex_) {
      return !free_replies_.empty() || used_replies_ < wire::kReplies;
    });
    if (free_replies_.empty()) {
      index = used_replies_++;
    } else {
      index = free_replies_.back();
      free_replies_.pop_back();
    }
  }
  reply(index).state.store(wire::Reply::kUnanswered, std::memory_order_relaxed);
  return index;
}

void Channel::return_reply(uint32_t index) {
  {
    const MutexLock lock(mutex_);
    free_replies_.push_back(index);
  }
  reply_returned_.notify_one();
}

wire::Reply& Channel::reply(uint32_t index) const {
  return reinterpret_cast<wire::Reply*>(life_.data() +
                                        wire::kRepliesOffset)[index];
}

std::shared_ptr<Timestamp> Channel::create_stamp() {
  uint32_t index = 0;
  {
    const MutexLock lock(mutex_);
    if (!free_stamps_.empty()) {
      index = free_stamps_.back();
      free_stamps_.pop_back();
    } else if (used_stamps_ < wire::kStamps) {
      index = used_stamps_++;
    } else {
      return nullptr;
    }
  }
  auto* const stamps =
      reinterpret_cast<Timestamp*>(life_.data() + wire::kStampsOffset);
  stamps[index].nanoseconds.store(0, std::memory_order_relaxed);
  return {&stamps[index],
          [self = shared_from_this(), index](Timestamp* /*stamp*/) {
            const MutexLock lock(self->mutex_);
            self->free_stamps_.push_back(index);
          }};
}

uint32_t Channel::index_of(const Timestamp& stamp) const {
  const auto* const stamps =
      reinterpret_cast<const Timestamp*>(life_.data() + wire::kStampsOffset);
  return static_cast<uint32_t>(&stamp - stamps);
}

void Channel::next(const std::function<void(const Status&)>& report) {
  if (!has_news()) return;
  report(read_next());
  failures_seen_.fetch_add(1, std::memory_order_release);
}

Status Channel::read_next() {
  // A failure is kept before it is counted, if there is room.
  if (control_.is_broken.load(std::memory_order_acquire) != 0 &&
      !broken_seen_) {
    broken_seen_ = true;
    return read_report(control_.broken);
  }
  const uint64_t read = control_.failures_read.load(std::memory_order_relaxed);
  if (read == control_.failures_kept.load(std::memory_order_acquire)) {
    return failure(orErrorLaunchFailure,
                   "more work failed than can be reported");
  }
  Status status = read_report(control_.reports[read % wire::kReports]);
  control_.failures_read.store(read + 1, std::memory_order_release);
  return status;
}

}  // namespace openreg
