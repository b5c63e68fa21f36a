// Host functions of a queue whose commands run in another process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

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

  // Adds a function; the command that leads to it is sent after this, in the
  // same order. Throws std::system_error if there can be no thread.
  void add(std::function<void()> function);
  // Takes the function that was added last back.
  void take_back();

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
  void work();
  // Until it is stopped.
  void run_functions();

  wire::FenceSlot& slot_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint32_t> finished_{0};  // 1: the thread has ended

  Mutex mutex_;
  std::deque<std::function<void()>> functions_ GUARDED_BY(mutex_);
  std::thread thread_ GUARDED_BY(mutex_);
  bool joined_ GUARDED_BY(mutex_) = false;
};

}  // namespace openreg
