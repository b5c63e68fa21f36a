// Memory full of zeros for stand-ins, with room around it.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace torch_openreg {

// Note [Room around stand-ins]
// Some of PyTorch's kernels read a little beyond their arguments. On the device
// that reaches the neighbouring memory; in the program it could be a page that
// does not exist, and kill it. So the memory of stand-ins has at least kRoom
// bytes of zeros before and behind it.

// The memory of the stand-ins of one call, on one thread. Small pieces lie in
// an arena that the thread keeps, which is cleared when this ends; they are
// gone then. Large ones are pages of their own, which cost nothing until they
// are touched. Those of a thread end in the opposite order of their beginnings.
class ZeroMemory {
 public:
  static constexpr size_t kRoom = size_t{64} << 10;

  ZeroMemory();
  ~ZeroMemory();
  ZeroMemory(const ZeroMemory&) = delete;
  ZeroMemory& operator=(const ZeroMemory&) = delete;

  // Throws std::bad_alloc if there is no memory.
  c10::DataPtr allocate(size_t bytes);

 private:
  const size_t begin_;  // of the arena's part
};

}  // namespace torch_openreg
