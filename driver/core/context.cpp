#include "core/context.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/stream.h"

namespace openreg {

Context::Context(const Config& config, int device, uint64_t epoch,
                 Context* previous)
    : config_(config),
      device_(device),
      epoch_(epoch),
      previous_(previous),
      memory_(device),
      failures_(config.errors),
      engine_(make_inprocess_engine(*this)) {}

Context::~Context() = default;

std::shared_ptr<Stream> Context::make_stream(unsigned int flags, int priority,
                                             bool is_default) {
  std::shared_ptr<Queue> queue = engine_->create_queue(priority);
  auto stream =
      std::make_shared<Stream>(*this, queue, flags, priority, is_default);
  queues_.push_back({std::move(queue), stream->is_blocking()});
  return stream;
}

std::shared_ptr<Stream> Context::create_stream(unsigned int flags,
                                               int priority) {
  FinishedQueues finished;  // goes after the lock
  const std::lock_guard lock(mutex_);
  if (is_closed()) return nullptr;
  finished = reap();
  auto stream = make_stream(
      flags, std::clamp(priority, kGreatestPriority, kLeastPriority),
      /*is_default=*/false);
  if (stream->is_blocking()) blocking_streams_.fetch_add(1);
  return stream;
}

Stream& Context::default_stream() {
  Stream* stream = default_stream_.load(std::memory_order_acquire);
  if (stream != nullptr) return *stream;
  const std::lock_guard lock(mutex_);
  if (owned_default_stream_ == nullptr) {
    owned_default_stream_ =
        make_stream(orStreamDefault, kLeastPriority, /*is_default=*/true);
    default_stream_.store(owned_default_stream_.get(),
                          std::memory_order_release);
  }
  return *owned_default_stream_;
}

void Context::retire(const Queue* queue) {
  FinishedQueues finished;  // goes after the lock
  const std::lock_guard lock(mutex_);
  for (Entry& entry : queues_) {
    if (entry.queue.get() != queue) continue;
    entry.retired = true;
    entry.queue->retire();
  }
  finished = reap();
}

Context::FinishedQueues Context::reap() {
  FinishedQueues finished;
  std::erase_if(queues_, [&](Entry& entry) {
    if (!entry.retired || !entry.queue->idle()) return false;
    if (entry.blocking) blocking_streams_.fetch_sub(1);
    finished.add(std::move(entry.queue));
    return true;
  });
  return finished;
}

std::vector<std::shared_ptr<Queue>> Context::all_queues() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Queue>> result;
  result.reserve(queues_.size());
  for (const Entry& entry : queues_) result.push_back(entry.queue);
  return result;
}

void Context::synchronize() {
  // First all targets, then all waits: work that comes later is not waited for.
  std::vector<Fence> fences;
  for (auto& queue : all_queues()) {
    const uint64_t target = queue->submitted();
    fences.push_back({std::move(queue), target});
  }
  for (const Fence& fence : fences) fence.queue->wait(fence.sequence);
  fences.clear();
  FinishedQueues finished;  // goes after the lock
  const std::lock_guard lock(mutex_);
  finished = reap();
}

Status Context::order(const Stream& stream) {
  if (blocking_streams_.load(std::memory_order_acquire) == 0) [[likely]]
    return {};
  std::vector<Fence> fences;
  if (stream.is_blocking()) {
    const Stream* first = default_stream_.load(std::memory_order_acquire);
    if (first != nullptr) fences.push_back(first->fence());
  } else if (stream.is_default()) {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : queues_) {
      if (!entry.blocking) continue;
      fences.push_back({entry.queue, entry.queue->submitted()});
    }
  }
  for (Fence& fence : fences) {
    if (is_done(fence)) continue;
    uint64_t sequence = 0;
    OPENREG_RETURN_IF_ERROR(stream.queue().submit(WaitCommand{std::move(fence)},
                                                  {}, Urgency::kQueued, nullptr,
                                                  &sequence));
  }
  return {};
}

void Context::close() {
  closed_.store(true, std::memory_order_release);
  for (const auto& queue : all_queues()) queue->close();
  {
    std::vector<Entry> entries;  // go after the lock
    std::vector<Fence> visits;
    const std::lock_guard lock(mutex_);
    entries.swap(queues_);
    visits.swap(visits_);
  }
  memory_.close();
}

bool Context::stop(std::chrono::nanoseconds limit) {
  closed_.store(true, std::memory_order_release);
  bool all = true;
  for (const auto& queue : all_queues()) all = queue->close(&limit) && all;
  return all;
}

void Context::note_visit(Fence fence) {
  const std::lock_guard lock(mutex_);
  std::erase_if(visits_, is_done);
  if (!is_done(fence)) visits_.push_back(std::move(fence));
}

void Context::wait_for_visits() {
  std::vector<Fence> visits;
  {
    const std::lock_guard lock(mutex_);
    visits = visits_;
  }
  for (const Fence& fence : visits) fence.queue->wait(fence.sequence);
}

bool Context::set_access(int device, bool allowed) {
  const uint64_t before =
      allowed ? peers_.fetch_or(bit(device)) : peers_.fetch_and(~bit(device));
  return ((before & bit(device)) != 0) != allowed;
}

}  // namespace openreg
