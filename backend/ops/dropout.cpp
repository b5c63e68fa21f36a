// Dropout. PyTorch sends it to a backend as one operator without a generator,
// and the CPU's kernel for that draws from the CPU's.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <tuple>

#include "backend/ops/registration.h"
#include "backend/runtime/generator.h"

namespace torch_openreg {

namespace {

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input,
                                                  double p,
                                                  std::optional<bool> train) {
  const at::TensorOptions mask_options = at::dtype(at::kBool);
  if (input.numel() == 0 || !train.value_or(true) || p == 0) {
    return {input.clone(), at::ones_like(input, mask_options)};
  }
  if (p == 1) {
    return {at::zeros_like(input), at::zeros_like(input, mask_options)};
  }
  at::Tensor mask = at::empty_like(input, mask_options);
  mask.bernoulli_(1 - p, getDefaultOpenRegGenerator(input.device().index()));
  return {at::mul(input, mask).mul_(1 / (1 - p)), mask};
}

}  // namespace

void register_dropout(torch::Library& m) {
  m.impl("native_dropout", TORCH_FN(native_dropout));
}

}  // namespace torch_openreg
