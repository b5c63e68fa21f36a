// Recurrent layers. PyTorch sends a backend's LSTM and GRU to fused cells that
// the CPU does not have. The LSTM takes the CPU's own way instead, a oneDNN
// kernel a layer; where the CPU would not, and for the GRU, the cells are put
// together from operators.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <utility>
#include <vector>

namespace torch_openreg {

namespace {

using LstmResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Whether the CPU would take oneDNN's layer.
bool takes_onednn(const at::Tensor& input, at::TensorList hx) {
  const bool has_projection = hx.size() == 2 && hx[0].sizes() != hx[1].sizes();
  return at::globalContext().userEnabledMkldnn() && !has_projection &&
         input.scalar_type() == at::kFloat && input.numel() != 0;
}

struct LstmOptions {
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;
  bool batch_first;
};

// The parameters of one layer and direction: two weights and two biases.
std::array<at::Tensor, 4> layer_parameters(at::TensorList params, size_t index,
                                           bool has_biases) {
  const size_t count = has_biases ? 4 : 2;
  const at::Tensor* const first = &params[index * count];
  if (has_biases) return {first[0], first[1], first[2], first[3]};
  const at::Tensor none = at::zeros({first[0].size(0)}, first[0].options());
  return {first[0], first[1], none, none};
}

// `input` has the sequence in its first dimension.
LstmResult onednn_lstm(const at::Tensor& input, at::TensorList hx,
                       at::TensorList params, const LstmOptions& options) {
  constexpr int64_t kLstm = 2;  // oneDNN's number for it
  const size_t directions = options.bidirectional ? 2 : 1;
  at::Tensor layer_input = input.contiguous();
  std::vector<at::Tensor> hy;
  std::vector<at::Tensor> cy;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (size_t direction = 0; direction < directions; ++direction) {
      const size_t index = hy.size();
      const auto [w_ih, w_hh, b_ih, b_hh] =
          layer_parameters(params, index, options.has_biases);
      const auto which = static_cast<int64_t>(index);
      auto [output, h, c, workspace] = at::mkldnn_rnn_layer(
          layer_input, w_ih, w_hh, b_ih, b_hh, hx[0].select(0, which),
          hx[1].select(0, which), /*reverse=*/direction > 0,
          /*batch_sizes=*/{}, kLstm, hx[0].size(2), options.num_layers,
          options.has_biases, options.bidirectional, options.batch_first,
          options.train);
      outputs.push_back(std::move(output));
      hy.push_back(std::move(h));
      cy.push_back(std::move(c));
    }
    layer_input = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (options.dropout != 0 && options.train &&
        layer + 1 < options.num_layers) {
      layer_input = at::dropout(layer_input, options.dropout, true);
    }
  }
  if (options.batch_first) layer_input = layer_input.transpose(0, 1);
  return {layer_input, at::stack(hy), at::stack(cy)};
}

LstmResult lstm(const at::Tensor& input, at::TensorList hx,
                at::TensorList params, bool has_biases, int64_t num_layers,
                double dropout, bool train, bool bidirectional,
                bool batch_first) {
  if (!takes_onednn(input, hx)) {
    return at::native::lstm(input, hx, params, has_biases, num_layers, dropout,
                            train, bidirectional, batch_first);
  }
  return onednn_lstm(
      batch_first ? input.transpose(0, 1) : input, hx, params,
      {has_biases, num_layers, dropout, train, bidirectional, batch_first});
}

at::Tensor optional_bias(const std::optional<at::Tensor>& bias) {
  return bias.has_value() ? *bias : at::Tensor();
}

LstmResult lstm_cell(const at::Tensor& input_gates,
                     const at::Tensor& hidden_gates, const at::Tensor& cx,
                     const std::optional<at::Tensor>& input_bias,
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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("lstm.input", TORCH_FN(lstm));
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

// PyTorch takes lstm apart before autograd sees it; so does this.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("lstm.input", TORCH_FN(lstm));
}

}  // namespace

}  // namespace torch_openreg
