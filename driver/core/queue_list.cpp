#include "core/queue_list.h"

#include <algorithm>
#include <utility>

namespace openreg {

void QueueList::add(std::shared_ptr<Queue> queue, bool blocking) {
  Queues finished;
  {
    const MutexLock lock(mutex_);
    finished = take_finished();
    if (closed_) {
      queue->cancel();
    } else {
      entries_.push_back({std::move(queue), blocking});
      if (blocking) blocking_.fetch_add(1);
    }
  }
  end(finished);
}

void QueueList::retire(const Queue& queue) {
  Queues finished;
  {
    const MutexLock lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.queue.get() != &queue) continue;
      entry.retired = true;
      entry.queue->retire();
    }
    finished = take_finished();
  }
  end(finished);
}

QueueList::Queues QueueList::take_finished() {
  Queues finished;
  std::erase_if(entries_, [&](Entry& entry) {
    if (!entry.retired || !entry.queue->idle()) return false;
    if (entry.blocking) blocking_.fetch_sub(1);
    finished.push_back(std::move(entry.queue));
    return true;
  });
  return finished;
}

void QueueList::end(const Queues& finished) {
  for (const auto& queue : finished) queue->join();
}

QueueList::Queues QueueList::all() {
  const MutexLock lock(mutex_);
  Queues result;
  result.reserve(entries_.size());
  for (const Entry& entry : entries_) result.push_back(entry.queue);
  return result;
}

QueueList::Load QueueList::load() {
  Load load{};
  for (const auto& queue : all()) {
    ++load.queues;
    const uint64_t done = queue->timeline().value();
    load.commands += std::max(queue->submitted(), done) - done;
  }
  return load;
}

void QueueList::wait() {
  // First all targets, then all waits: work that comes later is not waited for.
  std::vector<Fence> fences;
  for (auto& queue : all()) {
    const uint64_t target = queue->submitted();
    fences.push_back({std::move(queue), target});
  }
  for (const Fence& fence : fences) fence.queue->wait(fence.sequence);
  tidy();
}

void QueueList::tidy() {
  Queues finished;
  {
    const MutexLock lock(mutex_);
    finished = take_finished();
  }
  end(finished);
}

std::vector<Fence> QueueList::busy_blocking() {
  std::vector<Fence> fences;
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (!entry.blocking || entry.queue->idle()) continue;
    fences.push_back({entry.queue, entry.queue->submitted()});
  }
  return fences;
}

void QueueList::close() {
  std::vector<Entry> entries;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    entries.swap(entries_);
  }
  // All are cancelled before one is waited for: a kernel may wait for the place
  // of another that ends only when it is cancelled.
  for (const Entry& entry : entries) entry.queue->cancel();
  for (const Entry& entry : entries) entry.queue->join();
}

bool QueueList::stop(std::chrono::nanoseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const Queues queues = all();
  for (const auto& queue : queues) queue->cancel();
  bool ended = true;
  for (const auto& queue : queues) ended = queue->join_until(deadline) && ended;
  return ended;
}

}  // namespace openreg
