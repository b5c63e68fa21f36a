// A fresh start for a device.
#pragma once

#include <c10/core/Device.h>

#include "backend/export.h"

namespace torch_openreg {

// Ends all work of `device`, a lost one included, and begins anew; a negative
// index is the current device. Its tensors, events and external streams of
// before stay invalid: every use of them fails, only their release is quiet.
// Streams of the pools and generators go on, see forget_streams and
// Note [Whose state a generator has]. No other thread may use the device
// meanwhile. Throws c10::AcceleratorError if the device cannot be started.
TORCH_OPENREG_API void reset_device(c10::DeviceIndex device);

}  // namespace torch_openreg
