// How a host introduces itself to the executor of a device.
#pragma once

#include "openreg/kernel.h"

namespace torch_openreg::device {

// Notes which process the host is, and replies with the ids of the operators
// that can be run here, sorted. A library that the host has loaded may bring
// operators that the device knows nothing of. Throws std::invalid_argument for
// a host that writes records of another version.
orError_t attach(orKernelContext* ctx);

}  // namespace torch_openreg::device
