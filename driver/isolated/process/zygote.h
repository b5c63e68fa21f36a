// The process that forks devices (Note [Processes]), at its own end.
#pragma once

#include "core/descriptor.h"

namespace openreg {

// Serves the parent at the other end of `socket` until one of the two ends.
// Returns the exit code, in the zygote and, from serve_device, in each device.
int run_zygote(Descriptor socket);

}  // namespace openreg
