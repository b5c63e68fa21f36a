// An operator of our own, torch.ops.openreg.custom_abs: its schema, its kernel
// for the device, its Meta kernel, and what autograd does with it.
#include <ATen/ops/abs.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "backend/ops/registration.h"
#include "backend/pytorch/library.h"

namespace torch_openreg {

namespace {

// The kernel. A vendor would launch one of the chip's here.
at::Tensor custom_abs(const at::Tensor& input) { return at::abs(input); }

// Makes the result's metadata, from tensors without data. Fake tensors call it,
// and so do torch.compile and torch.export.
at::Tensor custom_abs_meta(const at::Tensor& input) {
  return at::empty_like(input, at::dtype(toRealValueType(input.scalar_type())));
}

}  // namespace

void register_custom_abs() {
  // The operator that programs call.
  define("openreg").def("custom_abs(Tensor input) -> Tensor");
  implement("openreg", c10::DispatchKey::PrivateUse1)
      .impl("custom_abs", TORCH_FN(custom_abs));
  implement("openreg", c10::DispatchKey::Meta)
      .impl("custom_abs", TORCH_FN(custom_abs_meta));
  // There is no formula for the gradient: the forward works with inputs that
  // need one, and a backward that comes this way raises. Without this, it would
  // warn and leave those inputs without a gradient.
  implement("openreg", c10::DispatchKey::AutogradPrivateUse1)
      .impl("custom_abs", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace torch_openreg
