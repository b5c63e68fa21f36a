// Puts the outputs of CPU kernels where the host wants them.
#pragma once

#include <cstddef>
#include <span>

namespace torch_openreg::device {

// A piece of device memory that waits for an output of exactly this size.
struct Placement {
  void* data = nullptr;
  size_t bytes = 0;
  bool claimed = false;  // somebody holds it
};

// Note [Placing outputs]
// CPU kernels allocate their outputs themselves, by the CPU allocator. While a
// PlacementScope is in force on a thread, an allocation on that thread whose
// size is that of a free placement gets the placement; all others get ordinary
// memory. A temporary may take the place of an output; then the output comes to
// lie elsewhere, and the executor copies it. Nothing depends on the guess but
// speed.

// Makes placements available on this thread; scopes don't nest. The first one
// puts the placing allocator in front of the CPU allocator of the process. A
// placement that is still claimed at the end was kept, as a cache would: its
// release, whenever and wherever that is, does not reach the allocator.
class PlacementScope {
 public:
  explicit PlacementScope(std::span<Placement> placements);
  ~PlacementScope();
  PlacementScope(const PlacementScope&) = delete;
  PlacementScope& operator=(const PlacementScope&) = delete;

  // From now on no allocation gets a placement; those that have one keep it.
  void close();
};

// Whether somebody holds one of them.
bool has_claimed(std::span<const Placement> placements);

}  // namespace torch_openreg::device
