// The kernels that every device has. As those of a module they know nothing of
// the driver but openreg/kernel.h; they share the futex with it.
#pragma once

#include <atomic>
#include <cstdint>

#include "openreg/kernel.h"

namespace openreg {

// Returns the code of a built-in kernel, null if there is none of that name.
orKernelFn find_builtin_kernel(const char* name);

// A gate: two words of pinned memory that host and kernel share.
struct GateState {
  std::atomic<uint32_t> open{0};
  std::atomic<uint32_t> arrived{0};  // kernels that have reached the gate
};

}  // namespace openreg
