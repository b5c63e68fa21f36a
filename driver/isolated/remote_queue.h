// The queue of a stream of the isolated driver: commands are sent to the device
// process, which runs them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "core/context.h"
#include "core/queue.h"
#include "isolated/channel.h"
#include "isolated/host_functions.h"
#include "isolated/world.h"

namespace openreg {

// Thread-safe. Submitting takes a lock of this queue, and one of the device for
// as long as it takes to write the command down.
class RemoteQueue final : public Queue {
 public:
  // Takes the slot with that index, and gives it back in the end. The context
  // outlives the queue.
  RemoteQueue(Context& context, std::shared_ptr<Channel> channel,
              uint32_t index);
  ~RemoteQueue() override;

  uint32_t index() const { return index_; }

  Status submit(Command&& command, Payload payload, Urgency urgency,
                Completion* completion, uint64_t* sequence) override;
  void wait(uint64_t target, WaitStyle style) override;
  void retire() override;
  void cancel() override;
  void join() override;
  bool join_until(std::chrono::steady_clock::time_point deadline) override;

  // Sends a request, waits for it, and stores the reply.
  Status request(wire::Kind kind, std::array<uint64_t, 4> arguments,
                 Payload payload);

  // This queue works for a stream of `visitor`, another device, which is told
  // if work is lost. To be called before the first command.
  void serve(Context& visitor) { visitor_ = &visitor; }

  // The device is gone: everything counts as done, with `why` as the result of
  // what somebody waits for. Never blocks for long.
  void lose(const Status& why);

 private:
  class Reply;
  struct Mark {
    uint64_t sequence;
    size_t total;
  };
  struct Kept {
    uint64_t sequence;
    std::shared_ptr<const void> object;
  };

  // Sends one command. `keep` is held until it is done.
  Status send(wire::Header header, Payload payload, Completion* completion,
              uint64_t* sequence, std::shared_ptr<const void> keep = nullptr);
  Status refused() const;  // requires submit_mutex_
  void hold_back();
  // Holds an object until `sequence` is done. Requires submit_mutex_.
  void keep_until(uint64_t sequence, std::shared_ptr<const void> object);
  // Holds staging memory until everything that was sent is done.
  void hold(std::shared_ptr<const Staging> staging) {
    IsolatedWorld::get().hold_staging(std::move(staging), index_, submitted());
  }

  Status submit_launch(const LaunchCommand& command, Payload payload,
                       Urgency urgency, Completion* completion,
                       uint64_t* sequence);
  Status submit_wait(const WaitCommand& command, uint64_t* sequence);
  Status submit_function(std::function<void()> function, Completion* completion,
                         uint64_t* sequence);

  // In remote_copy.cpp.
  Status submit_copy(const CopyCommand& command, Payload payload,
                     Urgency urgency, Completion* completion,
                     uint64_t* sequence);
  Status submit_fill(const FillCommand& command, Urgency urgency,
                     Completion* completion, uint64_t* sequence);
  // Whether the device process can reach the memory by itself.
  bool is_direct(const MemoryRef& memory) const;
  Status send_copy(const void* dst, const void* src, size_t count,
                   Urgency urgency, Completion* completion, uint64_t* sequence,
                   Payload payload = {});
  Status copy_waited(const CopyCommand& command, bool to_device,
                     Completion* completion, uint64_t* sequence);
  Status write_pieces(const CopyCommand& command, std::byte* staging,
                      Completion* completion, uint64_t* sequence);
  Status read_pieces(const CopyCommand& command, std::byte* staging,
                     Completion* completion, uint64_t* sequence);
  Status copy_by_host(const CopyCommand& command, uint64_t* sequence);
  Status send_pieces_by_host(const CopyCommand& command,
                             const std::shared_ptr<const Staging>& staging,
                             uint64_t* sequence);
  Status submit_to_peer(Context& peer, Command&& command, Payload payload,
                        Urgency urgency, Completion* completion,
                        uint64_t* sequence);
  Status copy_between(const CopyCommand& command, uint64_t* sequence);
  // Sends the pieces of a copy through `staging`: `from` fills it, `to` empties
  // it. Stores the number of the last command of `to`.
  static Status copy_pieces(const CopyCommand& command, std::byte* staging,
                            const std::shared_ptr<Queue>& from,
                            const std::shared_ptr<Queue>& to, uint64_t* last);
  Status peer_queue(Context& peer, std::shared_ptr<Queue>* queue);

  Context& context_;
  const std::shared_ptr<Channel> channel_;
  const uint32_t index_;
  wire::FenceSlot& slot_;
  HostFunctions host_functions_;
  Context* visitor_ = nullptr;
  // The newest number that anybody has waited for, for the counters.
  std::atomic<uint64_t> waited_for_{0};

  std::mutex functions_mutex_;  // functions and their commands are in one order

  std::mutex submit_mutex_;  // submitted_ changes only under it
  bool retired_ = false;     // guarded by submit_mutex_
  Status lost_;              // guarded by submit_mutex_
  std::deque<Kept> kept_;    // guarded by submit_mutex_

  std::mutex flow_mutex_;
  size_t sent_bytes_ = 0;   // guarded by flow_mutex_
  size_t done_bytes_ = 0;   // guarded by flow_mutex_
  std::deque<Mark> marks_;  // guarded by flow_mutex_

  std::mutex peers_mutex_;
  // Queues on other devices for copies in the order of this one; guarded by
  // peers_mutex_.
  std::map<Context*, std::shared_ptr<Queue>> peers_;
};

}  // namespace openreg
