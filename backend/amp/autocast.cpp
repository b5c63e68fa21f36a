#include "backend/amp/autocast.h"

#include <ATen/autocast_mode.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <optional>

#include "backend/pytorch/library.h"

namespace torch_openreg {

namespace {

// The names that PyTorch's macros for lists of operators expect.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

constexpr auto kKey = c10::DispatchKey::AutocastPrivateUse1;

#define OPENREG_LOWER_PRECISION(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define OPENREG_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define OPENREG_FP32_SET_OPT_DTYPE(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define OPENREG_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

// What PyTorch's lists leave to a backend: whole recurrent layers, which CUDA
// casts where it calls cuDNN, and the attention that layers call in place of
// its parts when they don't learn.
#define OPENREG_FORALL_LAYERS(_) \
  _(lstm, input)                 \
  _(lstm, data)                  \
  _(gru, input)                  \
  _(gru, data)                   \
  _(rnn_tanh, input)             \
  _(rnn_tanh, data)              \
  _(rnn_relu, input)             \
  _(rnn_relu, data)              \
  _(_native_multi_head_attention)

// Products of matrices, convolutions, recurrent cells, attention: a chip is
// much faster at these in 16 bits.
void add_lower_precision(torch::Library& m) {
  AT_FORALL_LOWER_PRECISION_FP(OPENREG_LOWER_PRECISION);
  OPENREG_FORALL_LAYERS(OPENREG_LOWER_PRECISION);
}

// Functions that leave the range of 16 bits or lose digits in it, norms and
// losses.
void add_fp32(torch::Library& m) { AT_FORALL_FP32(OPENREG_FP32); }

// Sums and the like, which have an argument for the type they add in.
void add_fp32_set_opt_dtype(torch::Library& m) {
  AT_FORALL_FP32_SET_OPT_DTYPE(OPENREG_FP32_SET_OPT_DTYPE);
}

// The same where another overload has that argument.
void add_fp32_append_dtype(torch::Library& m) {
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(
      KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE);
}

// Operators that want all their arguments in one type: the widest.
void add_promote(torch::Library& m) { AT_FORALL_PROMOTE(OPENREG_PROMOTE); }

#undef OPENREG_FORALL_LAYERS
#undef OPENREG_LOWER_PRECISION
#undef OPENREG_FP32
#undef OPENREG_FP32_SET_OPT_DTYPE
#undef OPENREG_PROMOTE

// Its input lies between 0 and 1, the result of a layer that ran in 16 bits:
// what was lost there cannot be had back, and its gradient leaves the range.
Tensor refuse_binary_cross_entropy(const Tensor& /*input*/,
                                   const Tensor& /*target*/,
                                   const std::optional<Tensor>& /*weight*/,
                                   int64_t /*reduction*/) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss "
              "are unsafe to autocast.\nUse "
              "torch.nn.functional.binary_cross_entropy_with_logits or "
              "torch.nn.BCEWithLogitsLoss, without the sigmoid before it: "
              "these are safe.");
}

}  // namespace

void register_autocast() {
  implement("_", kKey).fallback(torch::CppFunction::makeFallthrough());
  torch::Library& aten = implement("aten", kKey);
  add_lower_precision(aten);
  add_fp32(aten);
  add_fp32_set_opt_dtype(aten);
  add_fp32_append_dtype(aten);
  add_promote(aten);
  aten.impl("binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

}  // namespace torch_openreg
