// Which dtypes a copy can convert.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_openreg {

// Throws what copy_values would throw for the dtypes of the two, lazily
// conjugated or negated as they are. So the error appears at the call, and not
// where the copy runs. It is tried once for each combination. Thread-safe.
void check_convertible(const at::Tensor& dst, const at::Tensor& src);

}  // namespace torch_openreg
