// The flags of a record for what a tensor leaves undone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "backend/simulation/record/format.h"

namespace torch_openreg {

inline uint8_t lazy_flags(const at::Tensor& tensor) {
  uint8_t flags = 0;
  if (tensor.is_conj()) flags |= record::kConjugate;
  if (tensor.is_neg()) flags |= record::kNegative;
  return flags;
}

inline void set_lazy_flags(const at::Tensor& tensor, uint8_t flags) {
  const bool is_conj = (flags & record::kConjugate) != 0;
  const bool is_neg = (flags & record::kNegative) != 0;
  if (tensor.is_conj() != is_conj) tensor._set_conj(is_conj);
  if (tensor.is_neg() != is_neg) tensor._set_neg(is_neg);
}

}  // namespace torch_openreg
