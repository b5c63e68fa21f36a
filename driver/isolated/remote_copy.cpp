#include "isolated/remote_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "isolated/remote_queue.h"

namespace openreg {

namespace {

wire::Header copy_header(const void* dst, const void* src, size_t count,
                         Urgency urgency) {
  wire::Header header = wire::make_header(
      wire::Kind::kCopy, {reinterpret_cast<uintptr_t>(dst),
                          reinterpret_cast<uintptr_t>(src), count, 0});
  if (urgency != Urgency::kQueued && count <= wire::kPiece) {
    header.flags = wire::kCheap;
  }
  return header;
}

}  // namespace

Status RemoteCopy::send(const void* dst, const void* src, size_t count,
                        Submission& submission) {
  return queue_.send(copy_header(dst, src, count, submission.urgency),
                     submission);
}

Status RemoteCopy::copy(const CopyCommand& command, Submission& submission) {
  const bool is_waited = submission.completion != nullptr;
  switch (plan_copy(queue_.context(), command, is_waited)) {
    case CopyPlan::kOnDevice:
      return send(command.dst.pointer, command.src.pointer, command.count,
                  submission);
    case CopyPlan::kOnHost:
      return copy_on_host(command, submission);
    case CopyPlan::kWithCommand:
      return copy_with_command(command, submission);
    case CopyPlan::kWithReply:
      return copy_with_reply(command, submission);
    case CopyPlan::kStaged:
      return copy_staged(command, submission);
    case CopyPlan::kStagedByHost:
      return copy_staged_by_host(command, &submission.sequence);
    case CopyPlan::kOnPeer:
      return peers_.submit(
          *find_peer(queue_.context(), command.dst, command.src),
          CopyCommand(command), submission);
    case CopyPlan::kBetween:
      return copy_between(command, submission);
  }
  return failure(orErrorInternal, "there is no plan for a copy");
}

Status RemoteCopy::fill(const FillCommand& command, Submission& submission) {
  const MemoryRef& dst = command.dst;
  if (Context* const peer = find_peer(queue_.context(), dst)) {
    return peers_.submit(*peer, FillCommand(command), submission);
  }
  if (!is_direct(queue_.context(), dst)) {
    return queue_.submit_function(
        [command] {
          std::memset(command.dst.pointer, command.value, command.count);
        },
        submission);
  }
  wire::Header header =
      copy_header(dst.pointer, nullptr, command.count, submission.urgency);
  header.kind = wire::Kind::kFill;
  header.arguments = {reinterpret_cast<uintptr_t>(dst.pointer), command.count,
                      command.value, 0};
  return queue_.send(header, submission);
}

Status RemoteCopy::copy_on_host(const CopyCommand& command,
                                Submission& submission) {
  return queue_.submit_function(
      [command] {
        std::memmove(command.dst.pointer, command.src.pointer, command.count);
      },
      submission);
}

Status RemoteCopy::copy_with_command(const CopyCommand& command,
                                     Submission& submission) {
  submission.urgency = Urgency::kCheap;
  submission.payload = {static_cast<const std::byte*>(command.src.pointer),
                        command.count};
  return send(command.dst.pointer, nullptr, command.count, submission);
}

Status RemoteCopy::copy_with_reply(const CopyCommand& command,
                                   Submission& submission) {
  submission.urgency = Urgency::kCheap;
  submission.completion->wants_reply = true;
  submission.completion->reply = {static_cast<std::byte*>(command.dst.pointer),
                                  command.count};
  return send(nullptr, command.src.pointer, command.count, submission);
}

Status RemoteCopy::copy_staged(const CopyCommand& command,
                               Submission& submission) {
  const auto staging = std::make_shared<Staging>(staging_size(command.count));
  Status status = is_direct(queue_.context(), command.dst)
                      ? write_pieces(command, staging->data(), submission)
                      : read_pieces(command, staging->data(), submission);
  // The device may still be at it, also if something went wrong in between.
  queue_.hold(staging);
  return status;
}

Status RemoteCopy::write_pieces(const CopyCommand& command, std::byte* staging,
                                Submission& submission) {
  const size_t count = command.count;
  std::array<uint64_t, kPieces> used{};  // the last command of each place
  for (size_t offset = 0; offset < count; offset += wire::kPiece) {
    const Piece piece = piece_at(offset, count);
    uint64_t& last = used[piece.place];
    if (last != 0) queue_.wait(last, WaitStyle::kSpin);
    std::memcpy(piece.in(staging), piece.of(command.src), piece.size);
    Submission part{.urgency = Urgency::kWaited};
    if (offset + piece.size == count) part.completion = submission.completion;
    OPENREG_RETURN_IF_ERROR(
        send(piece.of(command.dst), piece.in(staging), piece.size, part));
    last = submission.sequence = part.sequence;
  }
  return {};
}

Status RemoteCopy::read_pieces(const CopyCommand& command, std::byte* staging,
                               Submission& submission) {
  const size_t count = command.count;
  std::array<uint64_t, kPieces> numbers{};
  size_t sent = 0;
  for (size_t offset = 0; offset < count; offset += wire::kPiece) {
    // As many pieces as there is room for are on their way.
    while (sent < count && sent < offset + kPieces * wire::kPiece) {
      const Piece piece = piece_at(sent, count);
      sent += piece.size;
      Submission part{.urgency = Urgency::kWaited};
      if (sent == count) part.completion = submission.completion;
      OPENREG_RETURN_IF_ERROR(
          send(piece.in(staging), piece.of(command.src), piece.size, part));
      numbers[piece.place] = submission.sequence = part.sequence;
    }
    const Piece piece = piece_at(offset, count);
    queue_.wait(numbers[piece.place], WaitStyle::kSpin);
    std::memcpy(piece.of(command.dst), piece.in(staging), piece.size);
  }
  return {};
}

Status RemoteCopy::copy_staged_by_host(const CopyCommand& command,
                                       uint64_t* sequence) {
  // One piece is enough: in one stream nothing overlaps.
  const auto staging =
      std::make_shared<Staging>(std::min(command.count, wire::kPiece));
  Status status = send_pieces_by_host(command, staging, sequence);
  queue_.hold(staging);
  return status;
}

Status RemoteCopy::send_pieces_by_host(
    const CopyCommand& command, const std::shared_ptr<const Staging>& staging,
    uint64_t* sequence) {
  const bool to_device = is_direct(queue_.context(), command.dst);
  std::byte* const bytes = staging->data();
  Submission part;
  for (size_t offset = 0; offset < command.count; offset += wire::kPiece) {
    const Piece piece = piece_at(offset, command.count);
    std::byte* const dst = piece.of(command.dst);
    std::byte* const src = piece.of(command.src);
    const size_t size = piece.size;
    // A function may still run when its device is lost and holds nothing more.
    if (to_device) {
      OPENREG_RETURN_IF_ERROR(queue_.submit_function(
          [staging, bytes, src, size] { std::memcpy(bytes, src, size); },
          part));
      OPENREG_RETURN_IF_ERROR(send(dst, bytes, size, part));
    } else {
      OPENREG_RETURN_IF_ERROR(send(bytes, src, size, part));
      OPENREG_RETURN_IF_ERROR(queue_.submit_function(
          [staging, bytes, dst, size] { std::memcpy(dst, bytes, size); },
          part));
    }
    *sequence = part.sequence;
  }
  return {};
}

Status RemoteCopy::copy_between(const CopyCommand& command,
                                Submission& submission) {
  OPENREG_RETURN_IF_ERROR(peers_.copy_between(command, &submission.sequence));
  if (submission.completion == nullptr) return {};
  // A mark for the one who waits.
  submission.urgency = Urgency::kQueued;
  return send(nullptr, nullptr, 0, submission);
}

}  // namespace openreg
