// Views: other metadata on the same storage. PyTorch's own functions touch no
// data and serve every device.
#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "backend/ops/registration.h"

namespace torch_openreg {

namespace {

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  return at::native::view(self, size);
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size,
                         at::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}

// Whether `self.data = from` may change the device of a tensor: between dense
// tensors of the host and of the device, yes. PyTorch's own answer knows only
// its built-in devices.
bool has_compatible_shallow_copy_type(const at::Tensor& self,
                                      const at::Tensor& from) {
  const auto is_dense = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && !tensor.is_quantized() &&
           !tensor.is_nested() &&
           (tensor.is_cpu() || tensor.is_privateuseone());
  };
  return (is_dense(self) && is_dense(from)) ||
         at::native::_has_compatible_shallow_copy_type(self, from);
}

}  // namespace

void register_views(torch::Library& m) {
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(view));
  m.impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("_has_compatible_shallow_copy_type",
         TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace torch_openreg
