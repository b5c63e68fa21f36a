// New tensors on a device.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_openreg {

// A tensor with a storage of `bytes` bytes of its own, for the current stream
// of `device`, which must exist. Its sizes are {0}; set them.
at::Tensor new_tensor(c10::DeviceIndex device, at::ScalarType dtype,
                      size_t bytes);

// Whether new memory is to be filled: deterministic mode makes it visible.
bool must_fill_new_memory();

}  // namespace torch_openreg
