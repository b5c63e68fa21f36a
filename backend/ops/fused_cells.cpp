// The fused cells of CUDA's LSTM and GRU, put together from operators, for who
// calls them by name. The device's own layers don't; see rnn.cpp.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

#include "backend/ops/registration.h"

namespace torch_openreg {

namespace {

at::Tensor optional_bias(const std::optional<at::Tensor>& bias) {
  return bias.has_value() ? *bias : at::Tensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates,
    const at::Tensor& cx, const std::optional<at::Tensor>& input_bias,
    const std::optional<at::Tensor>& hidden_bias) {
  at::Tensor gates = input_gates + hidden_gates;
  for (const auto& bias :
       {optional_bias(input_bias), optional_bias(hidden_bias)}) {
    if (bias.defined()) gates.add_(bias);
  }
  const std::vector<at::Tensor> parts = gates.chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid();
  const at::Tensor forget = parts[1].sigmoid();
  const at::Tensor cell = parts[2].tanh();
  const at::Tensor out = parts[3].sigmoid();
  const at::Tensor cy = (forget * cx).add_(in * cell);
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const std::optional<at::Tensor>& grad_hy,
    const std::optional<at::Tensor>& grad_cy, const at::Tensor& cx,
    const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  const std::vector<at::Tensor> parts = workspace.chunk(4, 1);
  const at::Tensor& in = parts[0];
  const at::Tensor& forget = parts[1];
  const at::Tensor& cell = parts[2];
  const at::Tensor& out = parts[3];
  const at::Tensor tanh_cy = cy.tanh();
  const at::Tensor dh = optional_bias(grad_hy);
  at::Tensor dc = optional_bias(grad_cy);
  at::Tensor grad_out = at::zeros({}, out.options());
  if (dh.defined()) {
    grad_out = dh * tanh_cy;
    const at::Tensor through = dh * out * (1 - tanh_cy * tanh_cy);
    dc = dc.defined() ? dc + through : through;
  }
  const at::Tensor grad_gates =
      at::cat({dc * cell * in * (1 - in), dc * cx * forget * (1 - forget),
               dc * in * (1 - cell * cell),
               (grad_out * out * (1 - out)).expand_as(out)},
              1);
  return {grad_gates, dc * forget, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates,
    const at::Tensor& hx, const std::optional<at::Tensor>& input_bias,
    const std::optional<at::Tensor>& hidden_bias) {
  const at::Tensor from_input = input_bias.has_value() && input_bias->defined()
                                    ? input_gates + *input_bias
                                    : input_gates;
  const at::Tensor from_hidden =
      hidden_bias.has_value() && hidden_bias->defined()
          ? hidden_gates + *hidden_bias
          : hidden_gates;
  const std::vector<at::Tensor> i = from_input.chunk(3, 1);
  const std::vector<at::Tensor> h = from_hidden.chunk(3, 1);
  const at::Tensor reset = (h[0] + i[0]).sigmoid_();
  const at::Tensor update = (h[1] + i[1]).sigmoid_();
  const at::Tensor fresh = (i[2] + h[2] * reset).tanh_();
  const at::Tensor hy = (hx - fresh).mul_(update).add_(fresh);
  return {hy, at::cat({reset, update, fresh, hx, h[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
gru_cell_backward(const at::Tensor& grad_hy, const at::Tensor& workspace,
                  bool has_bias) {
  const std::vector<at::Tensor> parts = workspace.chunk(5, 1);
  const at::Tensor& reset = parts[0];
  const at::Tensor& update = parts[1];
  const at::Tensor& fresh = parts[2];
  const at::Tensor& hx = parts[3];
  const at::Tensor d_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
  const at::Tensor d_update = grad_hy * (hx - fresh) * update * (1 - update);
  const at::Tensor d_reset = d_fresh * parts[4] * reset * (1 - reset);
  const at::Tensor d_input = at::cat({d_reset, d_update, d_fresh}, 1);
  const at::Tensor d_hidden = at::cat({d_reset, d_update, d_fresh * reset}, 1);
  return {d_input, d_hidden, grad_hy * update,
          has_bias ? d_input.sum(0) : at::Tensor(),
          has_bias ? d_hidden.sum(0) : at::Tensor()};
}

}  // namespace

void register_fused_cells(torch::Library& m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace torch_openreg
