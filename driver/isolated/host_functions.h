// Host functions of a queue whose commands run in another process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

#include "core/status.h"
#include "core/thread_safety.h"
#include "isolated/protocol.h"

namespace openreg {

// Runs functions of the program, one by one, when the device's queue has come
// to them. The thread starts with the first one. Thread-safe.
class HostFunctions {
 public:
  explicit HostFunctions(wire::FenceSlot& slot) : slot_(slot) {}
  // Waits for the function that runs.
  ~HostFunctions();
  HostFunctions(const HostFunctions&) = delete;
  HostFunctions& operator=(const HostFunctions&) = delete;

  // Adds a function, and has `send` send the command that leads to it, in the
  // same order. If that fails, the function is dropped.
  //   orErrorOutOfMemory  there can be no thread
  Status add(std::function<void()> function,
             const std::function<Status()>& send);

  // Drops those that were not reached, without waiting. The device asks for no
  // more.
  void stop();
  // After stop() or when no function is left: ends the thread. From then on the
  // slot is not touched any more.
  void join();
  // The same at the end of the program, but waits no longer than `deadline`.
  // Returns whether the thread has ended.
  bool join_until(std::chrono::steady_clock::time_point deadline);

 private:
  // Adds a function, and takes it back.
  Status push(std::function<void()> function) REQUIRES(order_mutex_);
  void take_back() REQUIRES(order_mutex_);

  void work();
  // Until it is stopped.
  void run_functions();

  wire::FenceSlot& slot_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint32_t> finished_{0};  // 1: the thread has ended

  Mutex order_mutex_;  // functions and their commands are in one order

  Mutex mutex_;
  std::deque<std::function<void()>> functions_ GUARDED_BY(mutex_);
  std::thread thread_ GUARDED_BY(mutex_);
  bool joined_ GUARDED_BY(mutex_) = false;
};

}  // namespace openreg
