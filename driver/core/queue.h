// A stream's queue, as far as it does not depend on the driver.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/command.h"
#include "core/timeline.h"

namespace openreg {

// Who may run a command.
enum class Urgency {
  kQueued,  // the device, later
  kShort,   // the calling thread, if the stream's own would have to wake
  kCheap,   // the calling thread, if the stream is idle
  kWaited,  // as kCheap; the caller waits for it in any case
};

// A stream that holds more than this makes its producers wait.
inline constexpr size_t kMostPendingBytes = size_t{16} << 20;

// How a command is submitted, and the number that it gets.
struct Submission {
  // Bytes that travel with the command; copied when it is queued.
  Payload payload = {};
  Urgency urgency = Urgency::kQueued;
  // Receives the result, also a failure. It must live until wait(sequence) has
  // returned. If it is null, a failure goes to the context.
  Completion* completion = nullptr;
  // Stored by the queue: the command's number, or one that is reached already
  // if the command was done at once.
  uint64_t sequence = 0;
};

// Runs commands in the order in which they were submitted. Each that is queued
// has a number, its sequence; the first is 1. Thread-safe.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  virtual ~Queue() = default;

  // Takes a command; moves from it only if it is queued. Blocks while too much
  // is queued.
  //   orErrorInvalidHandle  the queue was retired or closed
  //   orErrorOutOfMemory    no thread or no memory for the queue
  virtual Status submit(Command&& command, Submission& submission) = 0;

  // Waits until `target` is done. The calling thread may run commands, but none
  // after `target`.
  virtual void wait(uint64_t target, WaitStyle style = WaitStyle::kSpin) = 0;

  // Refuses new commands; what is queued still runs, and then the queue's
  // thread ends. Returns at once.
  virtual void retire() = 0;

  // The same, but drops what is queued and asks the running kernel to end.
  virtual void cancel() = 0;

  // After either of the two: waits until nothing runs any more and the thread
  // has ended.
  virtual void join() = 0;

  // After cancel(), at the end of the program: waits for the queue's own thread
  // alone, and not for longer than `deadline`. Returns whether it has ended.
  virtual bool join_until(std::chrono::steady_clock::time_point deadline) = 0;

  const Timeline& timeline() const { return timeline_; }
  uint64_t submitted() const {
    return submitted_.load(std::memory_order_acquire);
  }
  bool idle() const { return timeline_.reached(submitted()); }

 protected:
  Queue() : timeline_(own_timeline_) {}
  // A queue whose timeline lives in memory that processes share. The timeline
  // outlives it; numbers go on from where it stands.
  explicit Queue(Timeline& timeline)
      : timeline_(timeline), submitted_(timeline.value()) {}

 private:
  Timeline own_timeline_;

 protected:
  Timeline& timeline_;                  // what is done
  std::atomic<uint64_t> submitted_{0};  // the newest number
};

inline bool is_done(const Fence& fence) {
  return fence.queue->timeline().reached(fence.sequence);
}

}  // namespace openreg
