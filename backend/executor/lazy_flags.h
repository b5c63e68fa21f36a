// The flags of a record for what a tensor leaves undone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "backend/record/format.h"

namespace torch_openreg {

inline uint8_t lazy_flags(const at::Tensor& tensor) {
  uint8_t flags = 0;
  if (tensor.is_conj()) flags |= record::kConjugate;
  if (tensor.is_neg()) flags |= record::kNegative;
  return flags;
}

}  // namespace torch_openreg
