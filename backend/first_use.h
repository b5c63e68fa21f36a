// What PyTorch gets to know at the first use and not at import.
#pragma once

#include "backend/export.h"

namespace torch_openreg {

// Registers the kernels that only tensors on the device can reach and that take
// some milliseconds to register. To be called before there is such a tensor.
// Thread-safe; does nothing but the first time.
TORCH_OPENREG_API void register_on_first_use();

}  // namespace torch_openreg
