// Tells the kinds of tensors apart.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_openreg {

// Whether the tensor is nothing but a storage and strides.
inline bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

// Whether it is put together of such ones (sparse, nested, quantized), as far
// as C++ knows.
inline bool is_composite(const at::Tensor& tensor) {
  return tensor.defined() && !is_plain(tensor) &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

// Makes `tensor` as lazily conjugated and negated as `like`.
inline void set_lazy_like(const at::Tensor& tensor, const at::Tensor& like) {
  if (tensor.is_conj() != like.is_conj()) tensor._set_conj(like.is_conj());
  if (tensor.is_neg() != like.is_neg()) tensor._set_neg(like.is_neg());
}

}  // namespace torch_openreg
