// The result of a command that runs in another process.
#pragma once

#include <cstdint>
#include <memory>

#include "core/command.h"
#include "isolated/channel.h"
#include "isolated/world.h"

namespace openreg {

class RemoteQueue;

// A reply slot that a command is sent with, until the result is settled. For
// one thread.
class RemoteReply final : public PendingReply {
 public:
  // Takes a slot of the queue's channel, waiting until there is one. Long
  // replies arrive in `room`, if it is not null.
  RemoteReply(std::shared_ptr<RemoteQueue> queue, Channel& channel,
              std::shared_ptr<const Staging> room);
  ~RemoteReply() override;
  RemoteReply(const RemoteReply&) = delete;
  RemoteReply& operator=(const RemoteReply&) = delete;

  uint32_t index() const { return index_; }

  // The number of the command, once it was sent.
  void set_sequence(uint64_t sequence) { sequence_ = sequence; }

  void settle(Completion& completion) override;

 private:
  const std::shared_ptr<RemoteQueue> queue_;  // keeps the channel
  Channel& channel_;
  const std::shared_ptr<const Staging> room_;
  const uint32_t index_;
  uint64_t sequence_ = 0;
};

}  // namespace openreg
