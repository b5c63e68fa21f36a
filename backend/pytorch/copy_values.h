// How a copy converts values, on the host and on the device.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_openreg {

// Whether a copy of `from` to `to` keeps only the real part.
inline bool loses_imaginary_part(const at::Tensor& to, const at::Tensor& from) {
  return from.is_complex() && !to.is_complex() && to.scalar_type() != at::kBool;
}

// Copies `from` to `to`, both readable by the calling thread and of the same
// sizes. As the CPU's copy_ does, but without a warning about imaginary parts
// that get lost, and right for every tensor that is lazily negated. Throws what
// the CPU throws for dtypes that it cannot convert.
void copy_values(const at::Tensor& to, at::Tensor from);

}  // namespace torch_openreg
