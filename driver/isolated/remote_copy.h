// Copies and fills on a device in another process.
#pragma once

#include <cstddef>
#include <memory>

#include "core/queue.h"
#include "isolated/copy_plan.h"
#include "isolated/peer_copy.h"
#include "isolated/world.h"

namespace openreg {

class RemoteQueue;

// Carries out the plan of a copy; see Note [Copies]. Thread-safe.
class RemoteCopy {
 public:
  // Sends to `queue`, which owns this object. `peers` outlives it.
  RemoteCopy(RemoteQueue& queue, PeerCopy& peers)
      : queue_(queue), peers_(peers) {}

  // As Queue::submit.
  Status copy(const CopyCommand& command, Submission& submission);
  Status fill(const FillCommand& command, Submission& submission);

 private:
  Status send(const void* dst, const void* src, size_t count,
              Submission& submission);
  Status copy_on_host(const CopyCommand& command, Submission& submission);
  Status copy_with_command(const CopyCommand& command, Submission& submission);
  Status copy_with_reply(const CopyCommand& command, Submission& submission);
  Status copy_staged(const CopyCommand& command, Submission& submission);
  Status write_pieces(const CopyCommand& command, std::byte* staging,
                      Submission& submission);
  Status read_pieces(const CopyCommand& command, std::byte* staging,
                     Submission& submission);
  Status copy_staged_by_host(const CopyCommand& command, uint64_t* sequence);
  Status send_pieces_by_host(const CopyCommand& command,
                             const std::shared_ptr<const Staging>& staging,
                             uint64_t* sequence);
  Status copy_between(const CopyCommand& command, Submission& submission);

  RemoteQueue& queue_;
  PeerCopy& peers_;
};

}  // namespace openreg
