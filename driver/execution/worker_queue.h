// The queue of a stream of the in-process driver: commands are run by a thread
// of this process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "core/context.h"
#include "core/queue.h"
#include "core/thread_safety.h"
#include "execution/command_buffer.h"
#include "execution/execution_places.h"

namespace openreg {

// Note [Who runs a command]
// Whoever holds `run_mutex_` runs commands, in order. That is
// - the stream's worker, which starts with the first queued command, spins for
//   a while when it has nothing to do, and then sleeps;
// - a thread that waits for the stream, up to the point it waits for: waking
//   the worker would take longer than most of the work;
// - the submitting thread, if the stream is idle and the command is cheap, or
//   is short and the worker sleeps, or the caller waits for it anyway. Such a
//   command never enters the buffer and takes no number: it is done before
//   anybody could wait for it.
// While anything is in the buffer, the worker is awake or is being woken: so
// progress never depends on the other two.

// Thread-safe. Submitting takes a lock of this queue and no other.
class WorkerQueue final : public Queue {
 public:
  // The context and the places outlive the queue.
  WorkerQueue(Context& context, ExecutionPlaces& places, int priority);
  // A queue of a device process: `timeline` is shared with the program, and the
  // submitting thread is the dispatcher, which never waits, and for which the
  // failure of a command is nothing of its own.
  WorkerQueue(Context& context, ExecutionPlaces& places, int priority,
              Timeline& timeline);
  ~WorkerQueue() override;

  Status submit(Command&& command, Submission& submission) override;
  void wait(uint64_t target, WaitStyle style) override;
  void retire() override;
  void cancel() override;
  void join() override;
  bool join_until(std::chrono::steady_clock::time_point deadline) override;

 private:
  // Runs a command on the calling thread if that is allowed now. Returns
  // whether it did; its failure is in `status`.
  bool try_run_here(Command& command, Submission& submission, Status* status);
  Status enqueue(Command&& command, Submission& submission);
  // Gives the next command its number, which makes it visible to whoever runs
  // commands. Requires submit_mutex_, unless nobody else submits.
  uint64_t take_number();
  // Blocks while too much is queued.
  void hold_back();

  // Runs what is queued, up to `target`.
  void run_until(uint64_t target) REQUIRES(run_mutex_);
  // Runs one command and settles its result.
  void run(Command& command, Payload payload, Completion* completion,
           bool has_place) REQUIRES(run_mutex_);
  Status dispatch(Command& command, Payload payload, Completion* completion,
                  bool has_place) REQUIRES(run_mutex_);
  Status execute(const LaunchCommand& command, Payload payload,
                 Completion* completion, bool has_place);
  Status execute(const CopyCommand& command, Payload payload);
  Status execute(const FillCommand& command);
  Status execute(const HostCommand& command);
  Status execute(const WaitCommand& command);
  Status execute(const StampCommand& command) REQUIRES(run_mutex_);
  // Whether a command runs although the device has failed.
  bool is_exempt(const Command& command) const;
  // Why commands are dropped instead of run; success if they are not.
  Status dropped() const;

  void start_worker() REQUIRES(submit_mutex_);
  void work();
  // Whether the worker has something to do or should end.
  bool is_wanted() const;
  void sleep();
  void wake();

  Context& context_;
  ExecutionPlaces& places_;
  const int priority_;
  const bool serves_dispatcher_;
  std::atomic<bool> retired_{false};    // the worker ends when it is idle
  std::atomic<bool> cancelled_{false};  // commands are dropped

  // Producers. submitted_ changes only under it.
  Mutex submit_mutex_;
  CommandBuffer buffer_;  // its producer's end
  std::thread worker_;    // guarded by submit_mutex_, after retire() by
                          // join_mutex_

  Mutex join_mutex_;

  // The one who runs commands: the buffer's other end and the timeline.
  Mutex run_mutex_;
  int64_t last_stamp_ GUARDED_BY(run_mutex_) = 0;

  // Whether the worker sleeps, on this word, or has not started.
  static constexpr uint32_t kNotAwake = 1;
  std::atomic<uint32_t> asleep_{kNotAwake};
  std::atomic<uint32_t> finished_{0};  // 1: the worker has ended
};

}  // namespace openreg
