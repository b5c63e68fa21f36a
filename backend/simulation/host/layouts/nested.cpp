// Nested tensors: operators on plain tensors that make them. Sizes lie on the
// host, so a record can't carry these; PyTorch's functions serve every device.
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <torch/library.h>

#include "backend/simulation/host/layouts/registration.h"

namespace torch_openreg {

void register_nested(torch::Library& m) {
  m.impl("_nested_view_from_buffer",
         TORCH_FN(at::native::_nested_view_from_buffer));
  m.impl("_nested_from_padded",
         TORCH_FN(at::native::nested_from_padded_generic));
}

}  // namespace torch_openreg
