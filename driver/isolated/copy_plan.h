// How bytes get to a device in another process and back.
#pragma once

#include <cstddef>

#include "core/command.h"
#include "isolated/protocol.h"

namespace openreg {

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
enum class CopyPlan {
  kOnDevice,      // the device process copies by itself
  kOnHost,        // a host function does: the device reaches neither side
  kWithCommand,   // the bytes travel with the command
  kWithReply,     // the bytes travel with the reply
  kStaged,        // in pieces, and the caller moves them
  kStagedByHost,  // in pieces, and host functions move them
  kOnPeer,        // another device does it
  kBetween,       // half of it is another device's
};

// Plans a copy on a device for a caller who waits for it or does not.
CopyPlan plan_copy(const Context& own, const CopyCommand& command,
                   bool is_waited);

// Whether the device's process can reach the memory by itself.
bool is_direct(const Context& own, const MemoryRef& memory);

// The device other than `own` whose memory is used; null if there is none.
Context* find_peer(const Context& own, const MemoryRef& first,
                   const MemoryRef& second = {});

// A piece of a copy through staging memory, which has room for kPieces.
struct Piece {
  size_t offset;
  size_t size;
  size_t place;  // in staging memory, in pieces

  std::byte* in(std::byte* staging) const {
    return staging + place * wire::kPiece;
  }
  std::byte* of(const MemoryRef& memory) const {
    return static_cast<std::byte*>(memory.pointer) + offset;
  }
};
inline constexpr size_t kPieces = 4;

// The piece that starts at `offset` of `count` bytes; and the staging memory
// for all of them.
Piece piece_at(size_t offset, size_t count);
size_t staging_size(size_t count);

}  // namespace openreg
