// How a host introduces itself to the executor of a device.
#pragma once

#include <cstdint>

namespace torch_openreg {

// The arguments of the kernel `attach`, which comes before all others.
struct AttachMessage {
  uint64_t record_version;  // record::kVersion
  uint64_t host_process;    // its pid
};

}  // namespace torch_openreg
