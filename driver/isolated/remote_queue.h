// The queue of a stream of the isolated driver: commands are sent to the device
// process, which runs them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "core/context.h"
#include "core/queue.h"
#include "core/thread_safety.h"
#include "isolated/channel.h"
#include "isolated/flow_control.h"
#include "isolated/host_functions.h"
#include "isolated/peer_copy.h"
#include "isolated/remote_copy.h"
#include "isolated/world.h"

namespace openreg {

// Gives commands their numbers and sends them. How copies get there, functions
// of the program and the limit of what may be queued are parts of their own.
// Thread-safe. Submitting takes a lock of this queue, and one of the device for
// as long as it takes to write the command down.
class RemoteQueue final : public Queue {
 public:
  // Takes the slot with that index, and gives it back in the end. The contexts
  // outlive the queue. If it works for a stream of another device, lost work is
  // reported to that, `visitor`; otherwise null.
  RemoteQueue(Context& context, std::shared_ptr<Channel> channel,
              uint32_t index, Context* visitor);
  ~RemoteQueue() override;

  Context& context() const { return context_; }
  uint32_t index() const { return index_; }

  Status submit(Command&& command, Submission& submission) override;
  void wait(uint64_t target, WaitStyle style) override;
  void retire() override;
  void cancel() override;
  void join() override;
  bool join_until(std::chrono::steady_clock::time_point deadline) override;

  // Sends a request, waits for it, and stores the reply.
  Status request(wire::Kind kind, std::array<uint64_t, 4> arguments,
                 Payload payload);

  // The device is gone: everything counts as done, with `why` as the result of
  // what somebody waits for. Never blocks for long.
  void lose(const Status& why);

  // The reason why new commands are refused, once they are.
  Status refusal();

  // For the parts of this queue: sends one command, whose header says how
  // urgent it is. `keep` is held until it is done. A long reply arrives in
  // `room`, if there is one.
  Status send(wire::Header header, Submission& submission,
              std::shared_ptr<const void> keep = nullptr,
              std::shared_ptr<const Staging> room = nullptr);
  // Has the program run a function in the order of the queue.
  Status submit_function(std::function<void()> function,
                         Submission& submission);
  // Holds staging memory until everything that was sent is done.
  void hold(std::shared_ptr<const Staging> staging) {
    IsolatedWorld::get().hold_staging(std::move(staging), index_, submitted());
  }

 private:
  struct Kept {
    uint64_t sequence;
    std::shared_ptr<const void> object;
  };

  // This queue, kept.
  std::shared_ptr<RemoteQueue> self() { return {shared_from_this(), this}; }
  // Blocks while too much is queued.
  void hold_back();
  Status submit_launch(const LaunchCommand& command, Submission& submission);
  Status submit_wait(const WaitCommand& command, Submission& submission);
  Status submit_stamp(const StampCommand& command, Submission& submission);
  Status submit_call(const HostCommand& command, Submission& submission);

  // Why nothing reaches the device any more.
  Status unreachable() const;

  Status refused() const REQUIRES(submit_mutex_);
  uint64_t take_number() REQUIRES(submit_mutex_);
  // Holds an object until `sequence` is done.
  void keep_until(uint64_t sequence, std::shared_ptr<const void> object)
      REQUIRES(submit_mutex_);

  Context& context_;
  const std::shared_ptr<Channel> channel_;
  const uint32_t index_;
  Context* const visitor_;
  HostFunctions host_functions_;
  FlowControl flow_;
  PeerCopy peers_;
  RemoteCopy copies_;
  // The newest number that anybody has waited for, for the counters.
  std::atomic<uint64_t> waited_for_{0};

  Mutex submit_mutex_;  // submitted_ changes only under it
  bool retired_ GUARDED_BY(submit_mutex_) = false;
  Status lost_ GUARDED_BY(submit_mutex_);
  std::deque<Kept> kept_ GUARDED_BY(submit_mutex_);
};

}  // namespace openreg
