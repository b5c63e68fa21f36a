#include "isolated/peer_copy.h"

#include <array>
#include <shared_mutex>
#include <utility>

#include "core/context.h"
#include "isolated/copy_plan.h"
#include "isolated/hardware.h"
#include "isolated/remote_queue.h"
#include "isolated/world.h"

namespace openreg {

namespace {

Status too_many_streams() {
  return failure(orErrorOutOfMemory,
                 "there are too many streams: the devices can have %u at a "
                 "time, all together",
                 wire::kFenceSlots);
}

// Makes `queue` wait for a point of another one. Stores the number of the wait,
// if that is wanted.
Status wait_for(Queue& queue, Fence fence, uint64_t* sequence = nullptr) {
  Submission submission;
  OPENREG_RETURN_IF_ERROR(
      queue.submit(WaitCommand{std::move(fence)}, submission));
  if (sequence != nullptr) *sequence = submission.sequence;
  return {};
}

// Sends the pieces of a copy through `staging`: `from` fills it, `to` empties
// it. Stores the number of the last command of `to`.
Status copy_pieces(const CopyCommand& command, std::byte* staging,
                   const std::shared_ptr<Queue>& from,
                   const std::shared_ptr<Queue>& to, uint64_t* last) {
  std::array<uint64_t, kPieces> emptied{};
  for (size_t offset = 0; offset < command.count; offset += wire::kPiece) {
    const Piece piece = piece_at(offset, command.count);
    const MemoryRef staged{piece.in(staging), nullptr};
    const MemoryRef dst{piece.of(command.dst), command.dst.owner};
    const MemoryRef src{piece.of(command.src), command.src.owner};
    if (emptied[piece.place] != 0) {
      OPENREG_RETURN_IF_ERROR(wait_for(*from, {to, emptied[piece.place]}));
    }
    Submission fill;
    OPENREG_RETURN_IF_ERROR(
        from->submit(CopyCommand{staged, src, piece.size}, fill));
    OPENREG_RETURN_IF_ERROR(wait_for(*to, {from, fill.sequence}));
    Submission drain;
    OPENREG_RETURN_IF_ERROR(
        to->submit(CopyCommand{dst, staged, piece.size}, drain));
    *last = emptied[piece.place] = drain.sequence;
  }
  return {};
}

}  // namespace

std::shared_ptr<RemoteQueue> PeerCopy::queue_on(const Context& peer) {
  const MutexLock lock(mutex_);
  const auto known = queues_.find(&peer);
  if (known != queues_.end()) return known->second;
  IsolatedHardware& hardware = IsolatedWorld::get().hardware_of(peer);
  auto queue = hardware.create_visiting_queue(queue_.context());
  if (queue != nullptr) queues_.emplace(&peer, queue);
  return queue;
}

Status PeerCopy::submit(Context& peer, Command&& command,
                        Submission& submission) {
  const auto other = queue_on(peer);
  if (other == nullptr) return too_many_streams();
  const Fence here{queue_.shared_from_this(), queue_.submitted()};
  // A copy that somebody waits for may take long in here; meanwhile the peer's
  // memory stays.
  std::shared_lock<std::shared_mutex> visit;
  if (submission.completion != nullptr) visit = peer.memory().visit();
  OPENREG_RETURN_IF_ERROR(wait_for(*other, here));
  // Whoever waits finds the peer's answer when this queue has waited for it.
  OPENREG_RETURN_IF_ERROR(other->submit(std::move(command), submission));
  return wait_for(queue_, {other, submission.sequence}, &submission.sequence);
}

Status PeerCopy::copy_between(const CopyCommand& command, uint64_t* sequence) {
  const bool sends = command.src.owner == &queue_.context();
  const auto other = queue_on(sends ? *command.dst.owner : *command.src.owner);
  if (other == nullptr) return too_many_streams();
  const auto self = queue_.shared_from_this();
  if (!sends) {
    OPENREG_RETURN_IF_ERROR(wait_for(*other, {self, queue_.submitted()}));
  }
  const auto staging = std::make_shared<Staging>(staging_size(command.count));
  uint64_t last = 0;
  Status status =
      sends ? copy_pieces(command, staging->data(), self, other, &last)
            : copy_pieces(command, staging->data(), other, self, &last);
  // Both may still be at it, also if something went wrong in between.
  queue_.hold(staging);
  other->hold(staging);
  OPENREG_RETURN_IF_ERROR(std::move(status));
  if (sends) return wait_for(queue_, {other, last}, sequence);
  *sequence = last;
  return {};
}

void PeerCopy::retire() {
  decltype(queues_) queues;
  {
    const MutexLock lock(mutex_);
    queues.swap(queues_);
  }
  for (const auto& [peer, queue] : queues) queue->retire();
}

}  // namespace openreg
