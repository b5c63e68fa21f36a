#include "backend/executor/copy_values.h"

#include <ATen/ops/real.h>

namespace torch_openreg {

void copy_values(const at::Tensor& to, at::Tensor from) {
  if (from.is_complex() && !to.is_complex() && to.scalar_type() != at::kBool) {
    from = at::real(from);
  }
  if (to.is_conj() == from.is_conj() || to.is_neg() == from.is_neg()) {
    to.copy_(from);
    return;
  }
  to.copy_(from._neg_view());
  to.copy_(to._neg_view());
}

}  // namespace torch_openreg
