#include "isolated/copy_plan.h"

#include <algorithm>

#include "core/runtime.h"
#include "isolated/world.h"

namespace openreg {

namespace {

// Up to so many bytes travel with the command.
constexpr size_t kInline = size_t{64} << 10;

}  // namespace

bool is_direct(const Context& own, const MemoryRef& memory) {
  return memory.owner == &own ||
         IsolatedWorld::get().staging().contains(memory.pointer, 0) ||
         Runtime::get().host_memory().is_own(memory.pointer);
}

Context* find_peer(const Context& own, const MemoryRef& first,
                   const MemoryRef& second) {
  for (Context* const owner : {first.owner, second.owner}) {
    if (owner != nullptr && owner != &own) return owner;
  }
  return nullptr;
}

CopyPlan plan_copy(const Context& own, const CopyCommand& command,
                   bool is_waited) {
  if (find_peer(own, command.dst, command.src) != nullptr) {
    const bool is_half_own =
        command.dst.owner == &own || command.src.owner == &own;
    return is_half_own ? CopyPlan::kBetween : CopyPlan::kOnPeer;
  }
  const bool has_source = command.src.pointer != nullptr;
  const bool direct_dst = is_direct(own, command.dst);
  const bool direct_src = !has_source || is_direct(own, command.src);
  if (direct_dst && direct_src) return CopyPlan::kOnDevice;
  if (!direct_dst && !direct_src) return CopyPlan::kOnHost;
  if (!is_waited) return CopyPlan::kStagedByHost;
  if (direct_dst && command.count <= kInline) return CopyPlan::kWithCommand;
  if (direct_src && command.count <= sizeof(wire::Reply::bytes)) {
    return CopyPlan::kWithReply;
  }
  return CopyPlan::kStaged;
}

Piece piece_at(size_t offset, size_t count) {
  return {offset, std::min(wire::kPiece, count - offset),
          offset / wire::kPiece % kPieces};
}

size_t staging_size(size_t count) {
  return std::min(count, kPieces * wire::kPiece);
}

}  // namespace openreg
