#include "isolated/host_functions.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "core/futex.h"
#include "core/process_order.h"
#include "core/signals_blocked.h"

namespace openreg {

HostFunctions::~HostFunctions() {
  stop();
  join();
}

Status HostFunctions::add(std::function<void()> function,
                          const std::function<Status()>& send) {
  const MutexLock lock(order_mutex_);
  OPENREG_RETURN_IF_ERROR(push(std::move(function)));
  Status status = send();
  if (!status.ok()) take_back();
  return status;
}

Status HostFunctions::push(std::function<void()> function) {
  const MutexLock lock(mutex_);
  if (!thread_.joinable()) {
    const SignalsBlocked blocked;
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      return failure(orErrorOutOfMemory,
                     "the stream's thread for host functions cannot be "
                     "started: %s",
                     error.what());
    }
  }
  functions_.push_back(std::move(function));
  return {};
}

void HostFunctions::take_back() {
  const MutexLock lock(mutex_);
  if (!functions_.empty()) functions_.pop_back();
}

void HostFunctions::stop() {
  // Once: afterwards the slot may belong to another queue.
  if (!stopped_.exchange(true, std::memory_order_acq_rel)) {
    // The device asks for no more, so the number is free to say "all".
    slot_.host_requested.advance(UINT64_MAX);
  }
  std::deque<std::function<void()>> dropped;  // goes after the lock
  const MutexLock lock(mutex_);
  dropped.swap(functions_);
}

void HostFunctions::join() {
  stop();
  std::thread thread;
  bool is_first = false;
  {
    const MutexLock lock(mutex_);
    thread.swap(thread_);
    is_first = !std::exchange(joined_, true);
  }
  if (thread.joinable()) thread.join();
  // A queue that still waits for a function goes on without it.
  if (is_first) slot_.host_done.advance(UINT64_MAX);
}

bool HostFunctions::join_until(std::chrono::steady_clock::time_point deadline) {
  stop();
  {
    const MutexLock lock(mutex_);
    if (!thread_.joinable()) return true;
  }
  while (finished_.load() == 0) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    futex_wait_for(finished_, 0, left);
  }
  join();
  return true;
}

void HostFunctions::work() {
  pthread_setname_np(pthread_self(), "openreg:host");
  run_functions();
  finished_.store(1);
  futex_wake_all(finished_);
}

void HostFunctions::run_functions() {
  for (uint64_t next = 1;; ++next) {
    slot_.host_requested.wait(next);
    if (stopped_.load(std::memory_order_acquire)) return;
    std::function<void()> function;
    {
      const MutexLock lock(mutex_);
      if (functions_.empty()) continue;  // a device that asks for too much
      function = std::move(functions_.front());
      functions_.pop_front();
    }
    function();
    function = nullptr;
    before_other_process();
    slot_.host_done.advance(next);
  }
}

}  // namespace openreg
