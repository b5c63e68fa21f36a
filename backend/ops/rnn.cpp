// Recurrent layers. PyTorch sends a backend's LSTM and GRU to fused cells that
// the CPU does not have. They take the CPU's own way instead. The LSTM is a
// oneDNN kernel per layer. Other layers, and single steps, are one launch where
// nobody wants a gradient, and else the CPU's operators, step by step (see
// recurrent.h).
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/ops/recurrent.h"
#include "backend/ops/registration.h"
#include "backend/seam.h"

namespace torch_openreg {

namespace {

using LstmResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The answer of an operator that asks the processor. PyTorch has no function.
bool ask_processor(const char* name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<bool()>()
      .call();
}

// Whether oneDNN has layers of this dtype for the processor.
bool has_onednn_layer(at::ScalarType dtype) {
  static const bool has_bfloat16 =
      ask_processor("mkldnn::_is_mkldnn_bf16_supported");
  static const bool has_half =
      ask_processor("mkldnn::_is_mkldnn_fp16_supported");
  switch (dtype) {
    case at::kFloat:
      return true;
    case at::kBFloat16:
      return has_bfloat16;
    case at::kHalf:
      return has_half && !c10::GradMode::is_enabled();
    default:
      return false;
  }
}

// Whether the CPU would take oneDNN's layer.
bool takes_onednn(const at::Tensor& input, at::TensorList hx) {
  const bool has_projection = hx.size() == 2 && hx[0].sizes() != hx[1].sizes();
  return at::globalContext().userEnabledMkldnn() && !has_projection &&
         input.numel() != 0 && has_onednn_layer(input.scalar_type());
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

bool has_gradient(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  return (c10::GradMode::is_enabled() && tensor.requires_grad()) ||
         tensor._fw_grad(/*level=*/0).defined();
}

bool is_ours(const at::Tensor& tensor, c10::Device device) {
  return !tensor.defined() || tensor.device() == device;
}

// Whether the CPU's kernel can be the device's, in one launch: nothing inside
// draws random numbers, and autograd need not see what is inside.
bool can_be_whole(const at::Tensor& input, at::TensorList others) {
  return !has_gradient(input) &&
         std::ranges::all_of(others, [&](const at::Tensor& tensor) {
           return is_ours(tensor, input.device()) && !has_gradient(tensor);
         });
}

bool draws(const LayerOptions& options) {
  return options.dropout != 0 && options.train && options.num_layers > 1;
}

// PyTorch multiplies a sequence with gaps in another way if the weights require
// a gradient, even where none is computed. Those of the device never do.
bool is_multiplied_alike(const at::Tensor& steps, at::TensorList params) {
  return steps.is_contiguous() ||
         std::ranges::none_of(params, [](const at::Tensor& parameter) {
           return parameter.defined() && parameter.requires_grad();
         });
}

// The operator of that name with these arguments, in one launch.
template <typename... Arguments>
torch::jit::Stack run_whole(const DeviceOperator& op,
                            Arguments&&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Arguments>(arguments)...);
  op.run(&stack);
  return stack;
}

// With PyTorch's words.
void check_devices(const at::Tensor& input, at::TensorList tensors,
                   std::string_view what) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(is_ours(tensor, input.device()), "Input and ", what,
                " tensors are not at the same device, found input tensor at ",
                input.device(), " and ", what, " tensor at ", tensor.device());
  }
}

LstmResult lstm_of(const Sequence& input, at::TensorList hx,
                   at::TensorList params, bool has_biases,
                   const LayerOptions& options) {
  const bool has_projections = hx[0].size(2) != hx[1].size(2);
  std::vector<Hidden> first;
  const std::vector<at::Tensor> h = hx[0].unbind(0);
  const std::vector<at::Tensor> c = hx[1].unbind(0);
  first.reserve(h.size());
  for (size_t i = 0; i < h.size(); ++i) first.push_back({h[i], c[i]});
  const LayersResult result = run_layers(
      lstm_step, input, first,
      gather_parameters(params, has_biases, has_projections), options);
  std::vector<at::Tensor> hy;
  std::vector<at::Tensor> cy;
  for (const Hidden& last : result.last) {
    hy.push_back(last.h);
    cy.push_back(last.c);
  }
  return {result.output, at::stack(hy, 0), at::stack(cy, 0)};
}

LstmResult lstm(const at::Tensor& input, at::TensorList hx,
                at::TensorList params, bool has_biases, int64_t num_layers,
                double dropout, bool train, bool bidirectional,
                bool batch_first) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  const at::Tensor steps = batch_first ? input.transpose(0, 1) : input;
  if (takes_onednn(input, hx)) {
    return onednn_lstm(
        steps, hx, params,
        {has_biases, num_layers, dropout, train, bidirectional, batch_first});
  }
  check_devices(input, hx, "hidden");
  check_devices(input, params, "parameter");
  auto [output, hy, cy] = lstm_of({steps, {}}, hx, params, has_biases,
                                  {num_layers, dropout, train, bidirectional});
  return {batch_first ? output.transpose(0, 1) : output, hy, cy};
}

LstmResult packed_lstm(const at::Tensor& data, const at::Tensor& batch_sizes,
                       at::TensorList hx, at::TensorList params,
                       bool has_biases, int64_t num_layers, double dropout,
                       bool train, bool bidirectional) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  return lstm_of({data, batch_sizes}, hx, params, has_biases,
                 {num_layers, dropout, train, bidirectional});
}

// A layer whose state is one tensor.
struct OneHidden {
  const char* name;
  Cell cell;
};
constexpr OneHidden kGru = {"aten::gru", gru_step};
constexpr OneHidden kTanh = {"aten::rnn_tanh", tanh_step};
constexpr OneHidden kRelu = {"aten::rnn_relu", relu_step};

using OneHiddenResult = std::tuple<at::Tensor, at::Tensor>;

OneHiddenResult one_hidden_of(Cell cell, const Sequence& input,
                              const at::Tensor& hx, at::TensorList params,
                              bool has_biases, const LayerOptions& options) {
  std::vector<Hidden> first;
  for (const at::Tensor& h : hx.unbind(0)) first.push_back({h, {}});
  const LayersResult result = run_layers(
      cell, input, first,
      gather_parameters(params, has_biases, /*has_projections=*/false),
      options);
  std::vector<at::Tensor> hy;
  hy.reserve(result.last.size());
  for (const Hidden& last : result.last) hy.push_back(last.h);
  return {result.output, at::stack(hy, 0)};
}

template <const OneHidden& Kind>
OneHiddenResult one_hidden(const at::Tensor& input, const at::Tensor& hx,
                           at::TensorList params, bool has_biases,
                           int64_t num_layers, double dropout, bool train,
                           bool bidirectional, bool batch_first) {
  const LayerOptions options{num_layers, dropout, train, bidirectional};
  const at::Tensor steps = batch_first ? input.transpose(0, 1) : input;
  if (!draws(options) && is_multiplied_alike(steps, params) &&
      can_be_whole(input, hx) && can_be_whole(input, params)) {
    static const auto& op = *new DeviceOperator(Kind.name, "input");
    torch::jit::Stack results =
        run_whole(op, input, hx, params, has_biases, num_layers, dropout, train,
                  bidirectional, batch_first);
    return {std::move(results[0]).toTensor(), std::move(results[1]).toTensor()};
  }
  check_devices(input, hx, "hidden");
  check_devices(input, params, "parameter");
  auto [output, hy] =
      one_hidden_of(Kind.cell, {steps, {}}, hx, params, has_biases, options);
  return {batch_first ? output.transpose(0, 1) : output, hy};
}

template <const OneHidden& Kind>
OneHiddenResult packed_one_hidden(const at::Tensor& data,
                                  const at::Tensor& batch_sizes,
                                  const at::Tensor& hx, at::TensorList params,
                                  bool has_biases, int64_t num_layers,
                                  double dropout, bool train,
                                  bool bidirectional) {
  return one_hidden_of(Kind.cell, {data, batch_sizes}, hx, params, has_biases,
                       {num_layers, dropout, train, bidirectional});
}

at::Tensor optional_bias(const std::optional<at::Tensor>& bias) {
  return bias.has_value() ? *bias : at::Tensor();
}

// With PyTorch's words.
void check_cell(const at::Tensor& input, at::TensorList hx,
                const CellParameters& parameters) {
  TORCH_CHECK(input.size(1) == parameters.w_ih.size(1),
              "input has inconsistent input_size: got ", input.size(1),
              " expected ", parameters.w_ih.size(1));
  const int64_t hidden_size = parameters.w_hh.size(1);
  for (size_t i = 0; i < hx.size(); ++i) {
    TORCH_CHECK(input.size(0) == hx[i].size(0), "Input batch size ",
                input.size(0), " doesn't match hidden", i, " batch size ",
                hx[i].size(0));
    TORCH_CHECK(hx[i].size(1) == hidden_size, "hidden", i,
                " has inconsistent hidden_size: got ", hx[i].size(1),
                ", expected ", hidden_size);
  }
}

// One step of an LSTM or a GRU. PyTorch's own goes to the fused cells.
std::tuple<at::Tensor, at::Tensor> single_lstm(
    const at::Tensor& input, at::TensorList hx, const at::Tensor& w_ih,
    const at::Tensor& w_hh, const std::optional<at::Tensor>& b_ih,
    const std::optional<at::Tensor>& b_hh) {
  const CellParameters parameters{
      w_ih, w_hh, optional_bias(b_ih), optional_bias(b_hh), {}};
  const std::array<at::Tensor, 4> all = {w_ih, w_hh, parameters.b_ih,
                                         parameters.b_hh};
  if (!can_be_whole(input, hx) || !can_be_whole(input, all)) {
    TORCH_CHECK(hx.size() == 2, "lstm_cell expects two hidden states");
    check_cell(input, hx, parameters);
    const Hidden last =
        lstm_step(parameters.from_input(input), {hx[0], hx[1]}, parameters);
    return {last.h, last.c};
  }
  static const auto& op = *new DeviceOperator("aten::lstm_cell", "");
  torch::jit::Stack results = run_whole(op, input, hx, w_ih, w_hh, b_ih, b_hh);
  return {std::move(results[0]).toTensor(), std::move(results[1]).toTensor()};
}

at::Tensor single_gru(const at::Tensor& input, const at::Tensor& hx,
                      const at::Tensor& w_ih, const at::Tensor& w_hh,
                      const std::optional<at::Tensor>& b_ih,
                      const std::optional<at::Tensor>& b_hh) {
  const CellParameters parameters{
      w_ih, w_hh, optional_bias(b_ih), optional_bias(b_hh), {}};
  const std::array<at::Tensor, 5> others = {hx, w_ih, w_hh, parameters.b_ih,
                                            parameters.b_hh};
  if (!can_be_whole(input, others)) {
    check_cell(input, hx, parameters);
    return gru_step(parameters.from_input(input), {hx, {}}, parameters).h;
  }
  static const auto& op = *new DeviceOperator("aten::gru_cell", "");
  torch::jit::Stack results = run_whole(op, input, hx, w_ih, w_hh, b_ih, b_hh);
  return std::move(results[0]).toTensor();
}

}  // namespace

void register_recurrent(torch::Library& m) {
  m.impl("lstm.input", TORCH_FN(lstm));
  m.impl("lstm.data", TORCH_FN(packed_lstm));
  m.impl("lstm_cell", TORCH_FN(single_lstm));
  m.impl("gru.input", TORCH_FN(one_hidden<kGru>));
  m.impl("gru.data", TORCH_FN(packed_one_hidden<kGru>));
  m.impl("gru_cell", TORCH_FN(single_gru));
  m.impl("rnn_tanh.input", TORCH_FN(one_hidden<kTanh>));
  m.impl("rnn_tanh.data", TORCH_FN(packed_one_hidden<kTanh>));
  m.impl("rnn_relu.input", TORCH_FN(one_hidden<kRelu>));
  m.impl("rnn_relu.data", TORCH_FN(packed_one_hidden<kRelu>));
}

}  // namespace torch_openreg
