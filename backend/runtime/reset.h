// A device that begins again.
#pragma once

#include <c10/core/Device.h>

#include "backend/export.h"

namespace torch_openreg {

// Brings `device` back to its first state, also one that is broken or lost:
// drops its queued work, frees all of its memory, and forgets what this library
// has made on it. Tensors, events and external streams of before are refused
// from then on; streams of the pools go on as new ones, and generators from the
// state that they were given last. The rest of the program must not use the
// device meanwhile. A negative device is the current one. Throws
// c10::AcceleratorError if there is no such device or it can't begin again.
TORCH_OPENREG_API void reset_device(c10::DeviceIndex device);

}  // namespace torch_openreg
