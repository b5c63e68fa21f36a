#include "backend/pytorch/copy_values.h"

#include <ATen/ops/real.h>

namespace torch_openreg {

void copy_values(const at::Tensor& to, at::Tensor from) {
  if (loses_imaginary_part(to, from)) from = at::real(from);
  const bool negates = to.is_neg() != from.is_neg();
  if (!negates || (to.is_conj() == from.is_conj() &&
                   to.scalar_type() == from.scalar_type())) {
    to.copy_(from);
    return;
  }
  // The CPU can negate and conjugate at once for some dtypes only, and forgets
  // a negation when it converts between float and half.
  const at::Tensor unnegated = to._neg_view();
  unnegated.copy_(from);
  to.copy_(unnegated);
}

}  // namespace torch_openreg
