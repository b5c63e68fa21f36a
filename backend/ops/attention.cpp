// Fused attention, on the CPU's flash kernel. PyTorch asks a backend for it
// under a name of its own, the overrideable one.
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "backend/ops/registration.h"

namespace torch_openreg {

namespace {

// The CPU's own choice, with its flash kernel behind the overrideable name.
int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key,
                         const at::Tensor& value,
                         const std::optional<at::Tensor>& attn_mask,
                         double dropout_p, bool is_causal,
                         std::optional<double> scale, bool enable_gqa) {
  const int64_t choice = at::native::_fused_sdp_choice_cpp(
      query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
  if (choice != static_cast<int64_t>(at::SDPBackend::flash_attention)) {
    return choice;
  }
  return static_cast<int64_t>(at::SDPBackend::overrideable);
}

// How many heads of the query share one of `tensor`: PyTorch does not say that
// queries are grouped, but the numbers of heads do.
int64_t group_size(const at::Tensor& query, const at::Tensor& tensor) {
  const int64_t heads = tensor.size(-3);
  return heads == 0 ? 1 : query.size(-3) / heads;
}

at::Tensor spread_heads(const at::Tensor& tensor, int64_t group) {
  return group == 1 ? tensor : tensor.repeat_interleave(group, -3);
}

// The gradient of spread_heads.
at::Tensor gather_heads(const at::Tensor& gradient, int64_t group) {
  if (group == 1 || !gradient.defined()) return gradient;
  const int64_t heads = gradient.size(-3) / group;
  return gradient.unflatten(-3, {heads, group}).sum(-3);
}

// What stands for the state of a generator, which the CPU's kernel does not
// use: one tensor for all calls.
const at::Tensor& no_generator_state() {
  static const auto& state = *[] {
    const c10::InferenceMode ordinary(false);  // autograd saves it
    return new at::Tensor(at::empty({}, at::dtype(at::kLong)));
  }();
  return state;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
           c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
attention(const at::Tensor& query, const at::Tensor& key,
          const at::Tensor& value, const std::optional<at::Tensor>& attn_bias,
          double dropout_p, bool is_causal, bool /*return_debug_mask*/,
          std::optional<double> scale) {
  const auto [output, logsumexp] =
      at::_scaled_dot_product_flash_attention_for_cpu(
          query, spread_heads(key, group_size(query, key)),
          spread_heads(value, group_size(query, value)), dropout_p, is_causal,
          attn_bias, scale);
  // Undefined: the lengths of packed sequences and the mask for debugging, as
  // PyTorch's Meta kernel has it.
  return {
      output,         logsumexp,    at::Tensor(),         at::Tensor(),
      query.size(-2), key.size(-2), no_generator_state(), no_generator_state(),
      at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& attn_bias,
    std::array<bool, 4> /*grad_input_mask*/, const at::Tensor& out,
    const at::Tensor& logsumexp, const at::Tensor& /*cum_seq_q*/,
    const at::Tensor& /*cum_seq_k*/, c10::SymInt /*max_q*/,
    c10::SymInt /*max_k*/, double dropout_p, bool is_causal,
    const at::Tensor& /*philox_seed*/, const at::Tensor& /*philox_offset*/,
    std::optional<double> scale) {
  const int64_t key_group = group_size(query, key);
  const int64_t value_group = group_size(query, value);
  const std::optional<at::Tensor> mask =
      attn_bias.defined() ? std::optional(attn_bias) : std::nullopt;
  const auto [grad_query, grad_key, grad_value] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(
          grad_out, query, spread_heads(key, key_group),
          spread_heads(value, value_group), out, logsumexp, dropout_p,
          is_causal, mask, scale);
  // The CPU's choice is another kernel where the mask needs a gradient.
  return {grad_query, gather_heads(grad_key, key_group),
          gather_heads(grad_value, value_group), at::Tensor()};
}

}  // namespace

void register_attention(torch::Library& m) {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(
      &fused_sdp_choice);
  m.impl("_fused_sdp_choice", TORCH_FN(fused_sdp_choice));
  m.impl("_scaled_dot_product_fused_attention_overrideable",
         TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward",
         TORCH_FN(attention_backward));
}

}  // namespace torch_openreg
