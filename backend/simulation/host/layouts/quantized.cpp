// Quantized tensors: what PyTorch's own functions can't do for a device of
// ours.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/resize_ops.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/library.h>

#include "backend/ops/copy.h"
#include "backend/simulation/common/composites.h"
#include "backend/simulation/host/engine.h"
#include "backend/simulation/host/layouts/registration.h"
#include "backend/simulation/host/operator_info.h"

namespace torch_openreg {

namespace {

const OperatorInfo& copy_info() {
  static const auto& info = *new OperatorInfo(
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  return info;
}

// The numbers that it holds, as a plain tensor over the same memory.
at::Tensor plain_of(const at::Tensor& tensor) {
  const at::ScalarType dtype = c10::toUnderlying(tensor.scalar_type());
  const Parts parts = *take_apart(tensor);
  const at::Tensor& bytes = parts.values[0].toTensor();
  const bool has_whole_bytes = tensor.scalar_type() != at::kQUInt4x2 &&
                               tensor.scalar_type() != at::kQUInt2x4;
  if (!has_whole_bytes) return bytes;
  at::Tensor plain = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()), bytes.key_set(),
      c10::scalarTypeToTypeMeta(dtype));
  plain.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return plain;
}

// With the parameters on the device of `tensor`.
at::QuantizerPtr quantizer_on(const at::Tensor& tensor, const at::Tensor& src) {
  at::QuantizerPtr quantizer = at::get_qtensorimpl(src)->quantizer();
  const auto* const many =
      dynamic_cast<const at::PerChannelAffineQuantizer*>(quantizer.get());
  if (many == nullptr) return quantizer;
  return at::make_per_channel_affine_quantizer(
      many->scales().to(tensor.device()),
      many->zero_points().to(tensor.device()), many->axis(), src.scalar_type());
}

// On one device the executor copies, with all that PyTorch checks; between
// devices the numbers travel.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (self.is_same(src)) return self;
  if (self.device() == src.device()) {
    torch::jit::Stack stack = {self, src, non_blocking};
    run_operator(copy_info(), &stack);
    return self;
  }
  TORCH_CHECK(self.is_quantized(),
              "Copying from quantized Tensor to non-quantized Tensor is not "
              "allowed, please use dequantize to get a float Tensor from a "
              "quantized Tensor");
  TORCH_CHECK(src.is_quantized(),
              "Quantized copy only works with Tensors on the same device");
  TORCH_CHECK(self.qscheme() == src.qscheme(),
              "Quantized Copy only works with same qscheme");
  TORCH_CHECK(self.scalar_type() == src.scalar_type());
  copy_tensor(plain_of(self), plain_of(src), non_blocking);
  at::set_quantizer_(self, quantizer_on(self, src));
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst,
                     bool non_blocking) {
  at::Tensor to = dst;
  return copy_(to, self, non_blocking);
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size,
                          std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(self.qscheme() == at::kPerTensorAffine,
              "Can only resize quantized tensors with per-tensor schemes!");
  return at::_ops::resize_::redispatch(
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), self, size, format);
}

}  // namespace

void register_quantized(torch::Library& m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("resize_", TORCH_FN(resize_));
}

}  // namespace torch_openreg
