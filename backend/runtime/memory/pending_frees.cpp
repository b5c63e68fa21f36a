#include "backend/runtime/memory/pending_frees.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend/runtime/functions.h"
#include "openreg/error.h"

namespace torch_openreg::memory {

namespace {

// Codes that say nothing about the work of the device: the device was reset,
// the caller is a kernel or a forked child.
bool is_quiet(const c10::AcceleratorError& error) {
  const int code = error.get_error_code();
  return code == orErrorInvalidHandle || code == orErrorNotSupported ||
         code == orErrorNotInitialized;
}

// The device was reset or is lost: nothing of before runs any more.
bool is_over(const c10::AcceleratorError& error) {
  const int code = error.get_error_code();
  return code == orErrorInvalidHandle || code == orErrorDeviceLost;
}

bool is_done(const OpenRegEvent& event) {
  try {
    return event.query();
  } catch (const c10::AcceleratorError& error) {
    if (is_over(error)) return true;
    throw;
  }
}

void await_event(const OpenRegEvent& event) {
  try {
    event.synchronize();
  } catch (const c10::AcceleratorError& error) {
    if (!is_over(error)) throw;
  }
}

// For work that no event covers.
void await_device(c10::DeviceIndex device) {
  try {
    synchronize_device(device);
  } catch (const c10::AcceleratorError& error) {
    if (error.get_error_code() != orErrorDeviceLost) throw;
  }
}

}  // namespace

std::string PendingFrees::add(Block* block) {
  std::string failure;
  block->events = static_cast<uint32_t>(block->other_users.size());
  for (const OpenRegStream& stream : block->other_users) {
    Wait wait{stream, block, OpenRegEvent(), false};
    try {
      wait.event = record(stream);
      wait.recorded = true;
    } catch (const c10::AcceleratorError& error) {
      if (!is_quiet(error)) failure = error.what_without_backtrace();
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    }
    enqueue(std::move(wait));
  }
  block->other_users.clear();
  return failure;
}

void PendingFrees::poll(Done done) {
  if (!unrecorded_.empty()) retry();
  for (auto it = queues_.begin(); it != queues_.end();) {
    poll(*it, done);
    it = it->waits.empty() ? queues_.erase(it) : std::next(it);
  }
}

// A stream reaches its events in the order of their records.
void PendingFrees::poll(Queue& queue, Done done) {
  while (!queue.waits.empty() && is_done(queue.waits.front().event)) {
    Wait wait = std::move(queue.waits.front());
    queue.waits.pop_front();
    finish(std::move(wait), done);
  }
}

void PendingFrees::finish(Wait wait, Done done) {
  if (wait.recorded) {
    idle_[wait.stream.device_index()].push_back(std::move(wait.event));
  }
  if (--wait.block->events == 0) done(wait.block);
}

std::vector<PendingFrees::Wait> PendingFrees::take() {
  std::vector<Wait> waits = std::exchange(unrecorded_, {});
  for (Queue& queue : queues_) {
    std::move(queue.waits.begin(), queue.waits.end(),
              std::back_inserter(waits));
  }
  queues_.clear();
  return waits;
}

void PendingFrees::await(const std::vector<Wait>& waits) {
  for (const Wait& wait : waits) {
    if (!wait.recorded) {
      await_device(wait.stream.device_index());
      continue;
    }
    if (!is_done(wait.event)) await_event(wait.event);
  }
}

void PendingFrees::finish(std::vector<Wait> waits, Done done) {
  for (Wait& wait : waits) finish(std::move(wait), done);
}

void PendingFrees::put_back(std::vector<Wait> waits) {
  for (Wait& wait : waits) enqueue(std::move(wait));
}

void PendingFrees::enqueue(Wait wait) {
  if (!wait.recorded) {
    unrecorded_.push_back(std::move(wait));
    return;
  }
  const auto found = std::find_if(
      queues_.begin(), queues_.end(),
      [&wait](const Queue& queue) { return queue.stream == wait.stream; });
  Queue& queue = found != queues_.end()
                     ? *found
                     : queues_.emplace_back(Queue{wait.stream, {}});
  queue.waits.push_back(std::move(wait));
}

OpenRegEvent PendingFrees::record(const OpenRegStream& stream) {
  std::vector<OpenRegEvent>& idle = idle_[stream.device_index()];
  if (idle.empty()) idle.emplace_back();
  try {
    idle.back().record(stream);
  } catch (const c10::AcceleratorError& error) {
    // Nothing runs on a lost device: an event that was never recorded is done.
    if (error.get_error_code() == orErrorDeviceLost) return OpenRegEvent();
    if (error.get_error_code() != orErrorInvalidHandle) throw;
    // If the device was reset, its old events are of no use.
    idle.clear();
    idle.emplace_back().record(stream);
  }
  OpenRegEvent event = std::move(idle.back());
  idle.pop_back();
  return event;
}

// A record that comes later covers what an earlier one would have covered.
void PendingFrees::retry() {
  for (Wait& wait : unrecorded_) {
    if (wait.stream_gone) continue;
    try {
      wait.event = record(wait.stream);
      wait.recorded = true;
    } catch (const c10::AcceleratorError& error) {
      if (!is_quiet(error)) throw;
      wait.stream_gone = error.get_error_code() == orErrorInvalidHandle;
    }
  }
  // Those that were recorded go where they belong.
  put_back(std::exchange(unrecorded_, {}));
}

}  // namespace torch_openreg::memory
