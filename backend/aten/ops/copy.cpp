// copy_, and reading a single value.
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "backend/aten/copy.h"

namespace torch_openreg {

namespace {

void check_supported(const at::Tensor& tensor) {
  const bool is_ours = tensor.is_cpu() || tensor.is_privateuseone();
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_meta(),
                              "Cannot copy out of meta tensor; no data!");
  TORCH_CHECK_NOT_IMPLEMENTED(is_ours && tensor.layout() == at::kStrided,
                              "openreg: copies between the device and a ",
                              tensor.layout(), " tensor on ", tensor.device(),
                              " are not supported");
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst,
                     bool non_blocking) {
  check_supported(self);
  check_supported(dst);
  // Zeros that have no memory: forward-mode differentiation makes them.
  if (self._is_zerotensor()) return dst.zero_();
  copy_tensor(dst, self, non_blocking);
  return dst;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (!self.is_same(src)) copy_from(src, self, non_blocking);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return copy_from(self, dst, /*non_blocking=*/false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const at::Tensor value = at::empty({}, at::dtype(self.scalar_type()));
  copy_tensor(value, self.reshape({}), /*non_blocking=*/false);
  return at::_local_scalar_dense(value);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

// PyTorch resolves lazy conjugation and negation by clone(), which copies: a
// copy that did not take such tensors as they are would never end. PyTorch lets
// copy_ pass for that reason, but not the form that backends get.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace

}  // namespace torch_openreg
