// Copies between tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_openreg {

// Copies `src` to `dst`, of which at least one is on a device: any sizes that
// broadcast, any strides, any dtypes. `dst` and `src` may not overlap in part.
//
// In the order of the current stream. With `non_blocking`, returns at once if
// the host's side is pinned or both sides are on devices; otherwise when the
// bytes have arrived (see orMemcpyAsync for pageable memory).
void copy_tensor(const at::Tensor& dst, const at::Tensor& src,
                 bool non_blocking);

}  // namespace torch_openreg
