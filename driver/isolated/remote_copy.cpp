// How bytes get to a device in another process and back.
//
// Note [Copies]
// The device process reaches its own memory and pinned memory. So
// - between those two it copies by itself;
// - small amounts of pageable memory travel with the command or its reply;
// - larger ones are staged in shared memory, piece by piece, so that the two
//   processes copy at the same time. The caller waits in any case. On an idle
//   queue the dispatcher copies the pieces, see wire::kPiece;
// - ranges that the user has registered are not shared, and the caller does not
//   wait: host functions in the order of the stream move the bytes between them
//   and staging memory;
// - memory of another device: a queue there, which belongs to this one, does
//   the other half, and the two wait for each other.
#include <algorithm>
#include <cstring>
#include <shared_mutex>
#include <utility>

#include "core/runtime.h"
#include "isolated/remote_queue.h"

namespace openreg {

namespace {

using wire::kPiece;

constexpr size_t kPieces = 4;
// Up to so many bytes travel with the command.
constexpr size_t kInline = size_t{64} << 10;

wire::Header copy_header(const void* dst, const void* src, size_t count,
                         Urgency urgency) {
  wire::Header header{};
  header.kind = wire::Kind::kCopy;
  header.reply = wire::kNoReply;
  if (urgency != Urgency::kQueued && count <= kPiece) {
    header.flags = wire::kCheap;
  }
  header.arguments = {reinterpret_cast<uintptr_t>(dst),
                      reinterpret_cast<uintptr_t>(src), count, 0};
  return header;
}

std::byte* at(void* pointer, size_t offset) {
  return static_cast<std::byte*>(pointer) + offset;
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

// The device other than `own` whose memory is used; null if there is none.
Context* find_peer(const Context& own, const MemoryRef& first,
                   const MemoryRef& second) {
  for (Context* const owner : {first.owner, second.owner}) {
    if (owner != nullptr && owner != &own) return owner;
  }
  return nullptr;
}

}  // namespace

bool RemoteQueue::is_direct(const MemoryRef& memory) const {
  return memory.owner == &context_ ||
         IsolatedWorld::get().staging().contains(memory.pointer, 0) ||
         Runtime::get().host_memory().is_own(memory.pointer);
}

Status RemoteQueue::send_copy(const void* dst, const void* src, size_t count,
                              Submission& submission) {
  return send(copy_header(dst, src, count, submission.urgency), submission);
}

Status RemoteQueue::submit_copy(const CopyCommand& command,
                                Submission& submission) {
  if (Context* const peer = find_peer(context_, command.dst, command.src)) {
    const bool is_between =
        command.dst.owner == &context_ || command.src.owner == &context_;
    if (!is_between) {
      return submit_to_peer(*peer, CopyCommand(command), submission);
    }
    OPENREG_RETURN_IF_ERROR(copy_between(command, &submission.sequence));
    if (submission.completion == nullptr) return {};
    // A mark for the one who waits.
    submission.urgency = Urgency::kQueued;
    return send_copy(nullptr, nullptr, 0, submission);
  }
  const bool has_source = command.src.pointer != nullptr;
  const bool direct_dst = is_direct(command.dst);
  const bool direct_src = !has_source || is_direct(command.src);
  if (direct_dst && direct_src) {
    return send_copy(command.dst.pointer, command.src.pointer, command.count,
                     submission);
  }
  if (!direct_dst && !direct_src) {
    return submit_function(
        [command] {
          std::memmove(command.dst.pointer, command.src.pointer, command.count);
        },
        submission);
  }
  if (submission.completion == nullptr) {
    return copy_by_host(command, &submission.sequence);
  }
  return copy_waited(command, direct_dst, submission);
}

Status RemoteQueue::submit_fill(const FillCommand& command,
                                Submission& submission) {
  if (Context* const peer = find_peer(context_, command.dst, {})) {
    return submit_to_peer(*peer, FillCommand(command), submission);
  }
  if (!is_direct(command.dst)) {
    return submit_function(
        [command] {
          std::memset(command.dst.pointer, command.value, command.count);
        },
        submission);
  }
  wire::Header header = copy_header(command.dst.pointer, nullptr, command.count,
                                    submission.urgency);
  header.kind = wire::Kind::kFill;
  header.arguments = {reinterpret_cast<uintptr_t>(command.dst.pointer),
                      command.count, command.value, 0};
  return send(header, submission);
}

Status RemoteQueue::copy_waited(const CopyCommand& command, bool to_device,
                                Submission& submission) {
  const size_t count = command.count;
  if (to_device && count <= kInline) {
    submission.urgency = Urgency::kCheap;
    submission.payload = {static_cast<const std::byte*>(command.src.pointer),
                          count};
    return send_copy(command.dst.pointer, nullptr, count, submission);
  }
  if (!to_device && count <= sizeof(wire::Reply::bytes)) {
    submission.urgency = Urgency::kCheap;
    submission.completion->wants_reply = true;
    submission.completion->reply = {
        static_cast<std::byte*>(command.dst.pointer), count};
    return send_copy(nullptr, command.src.pointer, count, submission);
  }
  const auto staging =
      std::make_shared<Staging>(std::min(count, kPieces * kPiece));
  Status status = to_device ? write_pieces(command, staging->data(), submission)
                            : read_pieces(command, staging->data(), submission);
  // The device may still be at it, also if something went wrong in between.
  hold(staging);
  return status;
}

Status RemoteQueue::write_pieces(const CopyCommand& command, std::byte* staging,
                                 Submission& submission) {
  const size_t count = command.count;
  std::array<uint64_t, kPieces> used{};  // the last command of each piece
  for (size_t offset = 0; offset < count; offset += kPiece) {
    const size_t piece = std::min(kPiece, count - offset);
    const size_t place = offset / kPiece % kPieces;
    if (used[place] != 0) wait(used[place], WaitStyle::kSpin);
    std::byte* const bytes = at(staging, place * kPiece);
    std::memcpy(bytes, at(command.src.pointer, offset), piece);
    Submission part{.urgency = Urgency::kWaited};
    if (offset + piece == count) part.completion = submission.completion;
    OPENREG_RETURN_IF_ERROR(
        send_copy(at(command.dst.pointer, offset), bytes, piece, part));
    used[place] = submission.sequence = part.sequence;
  }
  return {};
}

Status RemoteQueue::read_pieces(const CopyCommand& command, std::byte* staging,
                                Submission& submission) {
  const size_t count = command.count;
  std::array<uint64_t, kPieces> numbers{};
  size_t sent = 0;
  for (size_t offset = 0; offset < count; offset += kPiece) {
    // As many pieces as there is room for are on their way.
    while (sent < count && sent < offset + kPieces * kPiece) {
      const size_t piece = std::min(kPiece, count - sent);
      const size_t place = sent / kPiece % kPieces;
      Submission part{.urgency = Urgency::kWaited};
      if (sent + piece == count) part.completion = submission.completion;
      OPENREG_RETURN_IF_ERROR(send_copy(at(staging, place * kPiece),
                                        at(command.src.pointer, sent), piece,
                                        part));
      numbers[place] = submission.sequence = part.sequence;
      sent += piece;
    }
    const size_t place = offset / kPiece % kPieces;
    wait(numbers[place], WaitStyle::kSpin);
    std::memcpy(at(command.dst.pointer, offset), at(staging, place * kPiece),
                std::min(kPiece, count - offset));
  }
  return {};
}

Status RemoteQueue::copy_by_host(const CopyCommand& command,
                                 uint64_t* sequence) {
  // One piece is enough: in one stream nothing overlaps.
  const auto staging =
      std::make_shared<Staging>(std::min(command.count, kPiece));
  Status status = send_pieces_by_host(command, staging, sequence);
  hold(staging);
  return status;
}

Status RemoteQueue::send_pieces_by_host(
    const CopyCommand& command, const std::shared_ptr<const Staging>& staging,
    uint64_t* sequence) {
  const bool to_device = is_direct(command.dst);
  std::byte* const bytes = staging->data();
  for (size_t offset = 0; offset < command.count; offset += kPiece) {
    const size_t piece = std::min(kPiece, command.count - offset);
    std::byte* const dst = at(command.dst.pointer, offset);
    std::byte* const src = at(command.src.pointer, offset);
    Submission part;
    // A function may still run when its device is lost and holds nothing more.
    if (to_device) {
      OPENREG_RETURN_IF_ERROR(submit_function(
          [staging, bytes, src, piece] { std::memcpy(bytes, src, piece); },
          part));
      OPENREG_RETURN_IF_ERROR(send_copy(dst, bytes, piece, part));
    } else {
      OPENREG_RETURN_IF_ERROR(send_copy(bytes, src, piece, part));
      OPENREG_RETURN_IF_ERROR(submit_function(
          [staging, bytes, dst, piece] { std::memcpy(dst, bytes, piece); },
          part));
    }
    *sequence = part.sequence;
  }
  return {};
}

Status RemoteQueue::peer_queue(Context& peer, std::shared_ptr<Queue>* queue) {
  const std::lock_guard lock(peers_mutex_);
  std::shared_ptr<Queue>& known = peers_[&peer];
  const bool is_new = known == nullptr;
  if (is_new) known = peer.engine().create_queue(kLeastPriority);
  if (known == nullptr) {
    peers_.erase(&peer);
    return failure(orErrorOutOfMemory, "there are too many streams");
  }
  if (is_new) static_cast<RemoteQueue&>(*known).serve(context_);
  *queue = known;
  return {};
}

Status RemoteQueue::submit_to_peer(Context& peer, Command&& command,
                                   Submission& submission) {
  std::shared_ptr<Queue> other;
  OPENREG_RETURN_IF_ERROR(peer_queue(peer, &other));
  const Fence here{shared_from_this(), submitted()};
  // A copy that somebody waits for may take long in here; meanwhile the peer's
  // memory stays.
  std::shared_lock<std::shared_mutex> visit;
  if (submission.completion != nullptr) visit = peer.memory().visit();
  OPENREG_RETURN_IF_ERROR(wait_for(*other, here));
  // Whoever waits finds the peer's answer when this queue has waited for it.
  OPENREG_RETURN_IF_ERROR(other->submit(std::move(command), submission));
  return wait_for(*this, {other, submission.sequence}, &submission.sequence);
}

Status RemoteQueue::copy_between(const CopyCommand& command,
                                 uint64_t* sequence) {
  const bool sends = command.src.owner == &context_;
  std::shared_ptr<Queue> other;
  OPENREG_RETURN_IF_ERROR(
      peer_queue(sends ? *command.dst.owner : *command.src.owner, &other));
  const auto self = shared_from_this();
  if (!sends) OPENREG_RETURN_IF_ERROR(wait_for(*other, {self, submitted()}));
  const auto staging =
      std::make_shared<Staging>(std::min(command.count, kPieces * kPiece));
  uint64_t last = 0;
  Status status = copy_pieces(command, staging->data(), sends ? self : other,
                              sends ? other : self, &last);
  // Both may still be at it, also if something went wrong in between.
  hold(staging);
  static_cast<RemoteQueue&>(*other).hold(staging);
  OPENREG_RETURN_IF_ERROR(std::move(status));
  if (sends) return wait_for(*this, {other, last}, sequence);
  *sequence = last;
  return {};
}

Status RemoteQueue::copy_pieces(const CopyCommand& command, std::byte* staging,
                                const std::shared_ptr<Queue>& from,
                                const std::shared_ptr<Queue>& to,
                                uint64_t* last) {
  std::array<uint64_t, kPieces> emptied{};
  for (size_t offset = 0; offset < command.count; offset += kPiece) {
    const size_t count = std::min(kPiece, command.count - offset);
    const size_t place = offset / kPiece % kPieces;
    const MemoryRef piece{staging + place * kPiece, nullptr};
    const MemoryRef dst{at(command.dst.pointer, offset), command.dst.owner};
    const MemoryRef src{at(command.src.pointer, offset), command.src.owner};
    if (emptied[place] != 0) {
      OPENREG_RETURN_IF_ERROR(wait_for(*from, {to, emptied[place]}));
    }
    Submission fill;
    OPENREG_RETURN_IF_ERROR(from->submit(CopyCommand{piece, src, count}, fill));
    OPENREG_RETURN_IF_ERROR(wait_for(*to, {from, fill.sequence}));
    Submission drain;
    OPENREG_RETURN_IF_ERROR(to->submit(CopyCommand{dst, piece, count}, drain));
    *last = emptied[place] = drain.sequence;
  }
  return {};
}

}  // namespace openreg
