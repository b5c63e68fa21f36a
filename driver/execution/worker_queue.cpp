// Submitting, waiting and the worker. What a command does when it runs is in
// execute.cpp.
#include "execution/worker_queue.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/counters.h"
#include "core/futex.h"
#include "core/process_order.h"
#include "core/signals_blocked.h"

namespace openreg {

namespace {

// How long a worker looks for new commands before it sleeps.
constexpr std::chrono::microseconds kIdleSpin{50};

}  // namespace

WorkerQueue::WorkerQueue(Context& context, ExecutionPlaces& places,
                         int priority)
    : context_(context),
      places_(places),
      priority_(priority),
      serves_dispatcher_(false) {}

WorkerQueue::WorkerQueue(Context& context, ExecutionPlaces& places,
                         int priority, Timeline& timeline)
    : Queue(timeline),
      context_(context),
      places_(places),
      priority_(priority),
      serves_dispatcher_(true) {}

WorkerQueue::~WorkerQueue() {
  cancel();
  join();
}

Status WorkerQueue::submit(Command&& command, Submission& submission) {
  const bool may_run_here =
      submission.urgency == Urgency::kShort
          ? asleep_.load(std::memory_order_relaxed) == kNotAwake
          : submission.urgency != Urgency::kQueued;
  if (may_run_here) {
    Status status;
    if (try_run_here(command, submission, &status)) return status;
  }
  // Marks and waits take next to no room, and their callers are promised that
  // they don't block.
  const bool is_mark = std::holds_alternative<WaitCommand>(command) ||
                       std::holds_alternative<StampCommand>(command);
  if (!is_mark && !serves_dispatcher_) hold_back();
  return enqueue(std::move(command), submission);
}

bool WorkerQueue::try_run_here(Command& command, Submission& submission,
                               Status* status) {
  if (!idle()) return false;
  Payload payload = submission.payload;
  const bool is_launch = std::holds_alternative<LaunchCommand>(command);
  // Kernels may count on the alignment that the buffer would give.
  alignas(kPayloadAlignment) std::array<std::byte, 4096> aligned;
  if (is_launch &&
      reinterpret_cast<uintptr_t>(payload.data()) % kPayloadAlignment != 0) {
    if (payload.size() > aligned.size()) return false;
    std::copy(payload.begin(), payload.end(), aligned.begin());
    payload = Payload(aligned).first(payload.size());
  }
  if (!run_mutex_.try_lock()) return false;
  const MutexLock run_lock(run_mutex_, std::adopt_lock);
  // Nothing is running now. What others submit from here on may come after.
  if (!idle() || retired_.load()) return false;
  if (is_launch && !places_.try_acquire()) return false;
  submission.sequence = timeline_.value();
  // In the mode `early` the caller learns of the failure at once.
  Completion own;
  const bool tell_now = submission.completion == nullptr &&
                        !serves_dispatcher_ &&
                        context_.config().errors == ErrorMode::kEarly;
  run(command, payload, tell_now ? &own : submission.completion, is_launch);
  if (serves_dispatcher_) {
    // The program has counted it. Nobody else submits.
    submission.sequence = take_number();
    before_other_process();
    timeline_.advance(submission.sequence);
  }
  *status = std::move(own.status);
  return true;
}

Status WorkerQueue::enqueue(Command&& command, Submission& submission) {
  {
    const MutexLock lock(submit_mutex_);
    if (retired_) {
      return failure(orErrorInvalidHandle,
                     "the stream is being destroyed, or device %d reset, by "
                     "another thread",
                     context_.device());
    }
    if (!worker_.joinable()) {
      try {
        start_worker();
      } catch (const std::system_error& error) {
        return failure(orErrorOutOfMemory,
                       "the stream's thread cannot be started: %s",
                       error.what());
      }
    }
    buffer_.push(std::move(command), submission.payload, submission.completion);
    submission.sequence = take_number();
  }
  wake();
  return {};
}

uint64_t WorkerQueue::take_number() {
  const uint64_t number = submitted_.load(std::memory_order_relaxed) + 1;
  submitted_.store(number, std::memory_order_seq_cst);
  return number;
}

void WorkerQueue::hold_back() {
  while (buffer_.pending_bytes() > kMostPendingBytes) {
    wait(std::min(timeline_.value() + 1, submitted()), WaitStyle::kSpin);
  }
}

void WorkerQueue::wait(uint64_t target, WaitStyle style) {
  if (timeline_.reached(target)) return;
  if (run_mutex_.try_lock()) {
    const MutexLock lock(run_mutex_, std::adopt_lock);
    run_until(target);
  }
  timeline_.wait(target, style);
}

void WorkerQueue::run_until(uint64_t target) {
  uint64_t done = timeline_.value();
  while (done < target && done < submitted_.load(std::memory_order_acquire)) {
    CommandBuffer::Entry& entry = buffer_.front();
    run(entry.command, entry.payload(), entry.completion,
        /*has_place=*/false);
    buffer_.pop();
    if (serves_dispatcher_) before_other_process();
    timeline_.advance(++done);
  }
}

void WorkerQueue::retire() {
  {
    const MutexLock lock(submit_mutex_);
    retired_.store(true, std::memory_order_seq_cst);
  }
  wake();
}

void WorkerQueue::cancel() {
  cancelled_.store(true, std::memory_order_seq_cst);
  retire();
}

void WorkerQueue::join() {
  {
    const MutexLock lock(join_mutex_);
    if (worker_.joinable()) worker_.join();
  }
  // A thread that helps or runs a command of its own leaves first. What it left
  // in the buffer is dropped.
  const MutexLock lock(run_mutex_);
  run_until(UINT64_MAX);
}

bool WorkerQueue::join_until(std::chrono::steady_clock::time_point deadline) {
  const MutexLock lock(join_mutex_);
  if (!worker_.joinable()) return true;
  while (finished_.load() == 0) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    futex_wait_for(finished_, 0, left);
  }
  worker_.join();
  return true;
}

void WorkerQueue::start_worker() {
  const SignalsBlocked blocked;
  counters().worker_threads.fetch_add(1);
  try {
    worker_ = std::thread([this] { work(); });
  } catch (...) {
    counters().worker_threads.fetch_sub(1);
    throw;
  }
}

void WorkerQueue::work() {
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "openreg:%d", context_.device());
  pthread_setname_np(pthread_self(), name.data());
  for (;;) {
    {
      const MutexLock lock(run_mutex_);
      run_until(UINT64_MAX);
    }
    // In this order: after retire() nothing new is queued.
    if (retired_.load(std::memory_order_seq_cst) && idle()) break;
    sleep();
  }
  counters().worker_threads.fetch_sub(1);
  finished_.store(1);
  futex_wake_all(finished_);
}

bool WorkerQueue::is_wanted() const {
  return !timeline_.reached(submitted_.load(std::memory_order_seq_cst)) ||
         retired_.load(std::memory_order_seq_cst);
}

// See Note [Sleeping without missing the wake-up].
void WorkerQueue::sleep() {
  if (spin_until([this] { return is_wanted(); }, kIdleSpin)) return;
  asleep_.store(kNotAwake, std::memory_order_seq_cst);
  while (asleep_.load(std::memory_order_seq_cst) == kNotAwake && !is_wanted()) {
    futex_wait(asleep_, kNotAwake);
  }
  asleep_.store(0, std::memory_order_seq_cst);
}

void WorkerQueue::wake() {
  if (asleep_.load(std::memory_order_seq_cst) == 0) return;
  if (asleep_.exchange(0, std::memory_order_seq_cst) == 0) return;
  futex_wake_all(asleep_);
}

}  // namespace openreg
