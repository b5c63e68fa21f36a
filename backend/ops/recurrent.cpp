// The CPU multiplies the inputs of all steps at once, and each step then needs
// the hidden part alone. PyTorch does so on no other device; here the same
// operators in the same order give the CPU's numbers, bit for bit, and those of
// the gradients too.
#include "backend/ops/recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <ranges>
#include <span>
#include <utility>

namespace torch_openreg {

namespace {

Hidden slice(const Hidden& hidden, int64_t first, int64_t last) {
  const auto part = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, first, last - first) : tensor;
  };
  return {part(hidden.h), part(hidden.c)};
}

Hidden concatenate(const std::vector<Hidden>& parts) {
  std::vector<at::Tensor> h;
  std::vector<at::Tensor> c;
  for (const Hidden& part : parts) {
    h.push_back(part.h);
    if (part.c.defined()) c.push_back(part.c);
  }
  return {at::cat(h, 0), c.empty() ? at::Tensor() : at::cat(c, 0)};
}

struct LayerResult {
  at::Tensor output;
  Hidden last;
};

LayerResult run_full(Cell cell, const at::Tensor& input, Hidden hidden,
                     const CellParameters& parameters, bool backwards) {
  std::vector<at::Tensor> steps = parameters.from_input(input).unbind(0);
  TORCH_CHECK(!steps.empty(),
              "Expected sequence length to be larger than 0 in RNN");
  if (backwards) std::ranges::reverse(steps);
  for (at::Tensor& step : steps) {
    hidden = cell(step, hidden, parameters);
    step = hidden.h;
  }
  if (backwards) std::ranges::reverse(steps);
  return {at::stack(steps, 0), std::move(hidden)};
}

std::span<const int64_t> sizes_of(const Sequence& packed) {
  return {packed.batch_sizes.const_data_ptr<int64_t>(),
          static_cast<size_t>(packed.batch_sizes.size(0))};
}

// The batch gets smaller from step to step: sequences end, and their states
// stay.
LayerResult run_packed(Cell cell, const Sequence& input, Hidden hidden,
                       const CellParameters& parameters) {
  const at::Tensor gates = parameters.from_input(input.data);
  std::vector<at::Tensor> outputs;
  std::vector<Hidden> ended;
  int64_t offset = 0;
  int64_t running = sizes_of(input).front();
  for (const int64_t size : sizes_of(input)) {
    if (size < running) {
      ended.push_back(slice(hidden, size, running));
      hidden = slice(hidden, 0, size);
    }
    running = size;
    hidden = cell(gates.narrow(0, offset, size), hidden, parameters);
    outputs.push_back(hidden.h);
    offset += size;
  }
  ended.push_back(std::move(hidden));
  std::ranges::reverse(ended);
  return {at::cat(outputs, 0), concatenate(ended)};
}

// And larger on the way back: sequences begin, with their first states.
LayerResult run_packed_backwards(Cell cell, const Sequence& input,
                                 const Hidden& first,
                                 const CellParameters& parameters) {
  const at::Tensor gates = parameters.from_input(input.data);
  const std::span<const int64_t> sizes = sizes_of(input);
  std::vector<at::Tensor> outputs;
  int64_t offset = input.data.size(0);
  int64_t running = sizes.back();
  Hidden hidden = slice(first, 0, running);
  for (const int64_t size : std::views::reverse(sizes)) {
    if (size > running) {
      hidden = concatenate({hidden, slice(first, running, size)});
    }
    running = size;
    offset -= size;
    hidden = cell(gates.narrow(0, offset, size), hidden, parameters);
    outputs.push_back(hidden.h);
  }
  std::ranges::reverse(outputs);
  return {at::cat(outputs, 0), std::move(hidden)};
}

LayerResult run_layer(Cell cell, const Sequence& input, const Hidden& first,
                      const CellParameters& parameters, bool backwards) {
  if (!input.batch_sizes.defined()) {
    return run_full(cell, input.data, first, parameters, backwards);
  }
  return backwards ? run_packed_backwards(cell, input, first, parameters)
                   : run_packed(cell, input, first, parameters);
}

Hidden simple_step(const at::Tensor& gates, const Hidden& hidden,
                   const CellParameters& parameters,
                   at::Tensor (*activate)(const at::Tensor&)) {
  return {activate(parameters.from_hidden(hidden.h).add_(gates)), {}};
}

// PyTorch's words for what does not fit `num_layers`.
void check_counts(size_t hiddens, size_t parameters,
                  const LayerOptions& options) {
  const size_t directions = options.bidirectional ? 2 : 1;
  TORCH_CHECK(hiddens % directions == 0 && parameters % directions == 0,
              "Odd number of params or hiddens given to a bidirectional RNN");
  const auto layers = static_cast<size_t>(options.num_layers);
  TORCH_CHECK(layers == hiddens / directions,
              "Expected more hidden states in stacked_rnn");
  TORCH_CHECK(layers == parameters / directions,
              "Expected more weights in stacked_rnn");
}

}  // namespace

at::Tensor CellParameters::from_input(const at::Tensor& input) const {
  return at::linear(input, w_ih, b_ih);
}

at::Tensor CellParameters::from_hidden(const at::Tensor& hidden) const {
  return at::linear(hidden, w_hh, b_hh);
}

Hidden lstm_step(const at::Tensor& gates, const Hidden& hidden,
                 const CellParameters& parameters) {
  const std::vector<at::Tensor> parts =
      parameters.from_hidden(hidden.h).add_(gates).unsafe_chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid_();
  const at::Tensor forget = parts[1].sigmoid_();
  const at::Tensor cell = parts[2].tanh_();
  const at::Tensor out = parts[3].sigmoid_();
  const at::Tensor cy = (forget * hidden.c).add_(in * cell);
  const at::Tensor hy = out * cy.tanh();
  return {parameters.w_hr.defined() ? at::matmul(hy, parameters.w_hr.t()) : hy,
          cy};
}

Hidden gru_step(const at::Tensor& gates, const Hidden& hidden,
                const CellParameters& parameters) {
  const std::vector<at::Tensor> i = gates.unsafe_chunk(3, 1);
  const std::vector<at::Tensor> h =
      parameters.from_hidden(hidden.h).unsafe_chunk(3, 1);
  const at::Tensor reset = h[0].add_(i[0]).sigmoid_();
  const at::Tensor update = h[1].add_(i[1]).sigmoid_();
  const at::Tensor fresh = i[2].add(h[2].mul_(reset)).tanh_();
  return {(hidden.h - fresh).mul_(update).add_(fresh), {}};
}

Hidden tanh_step(const at::Tensor& gates, const Hidden& hidden,
                 const CellParameters& parameters) {
  return simple_step(gates, hidden, parameters, at::tanh);
}

Hidden relu_step(const at::Tensor& gates, const Hidden& hidden,
                 const CellParameters& parameters) {
  return simple_step(gates, hidden, parameters, at::relu);
}

std::vector<CellParameters> gather_parameters(at::TensorList list,
                                              bool has_biases,
                                              bool has_projections) {
  const size_t weights = has_projections ? 3 : 2;
  const size_t count = weights + (has_biases ? 2 : 0);
  TORCH_CHECK(list.size() % count == 0,
              "got an incorrect number of RNN parameters");
  std::vector<CellParameters> all;
  for (size_t at = 0; at < list.size(); at += count) {
    CellParameters& cell =
        all.emplace_back(CellParameters{list[at], list[at + 1], {}, {}, {}});
    if (has_biases) {
      cell.b_ih = list[at + 2];
      cell.b_hh = list[at + 3];
    }
    if (has_projections) cell.w_hr = list[at + count - 1];
  }
  return all;
}

LayersResult run_layers(Cell cell, const Sequence& input,
                        const std::vector<Hidden>& first,
                        const std::vector<CellParameters>& parameters,
                        const LayerOptions& options) {
  check_counts(first.size(), parameters.size(), options);
  LayersResult result{input.data, {}};
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (const bool backwards : {false, true}) {
      if (backwards && !options.bidirectional) continue;
      const size_t index = result.last.size();
      LayerResult done = run_layer(cell, {result.output, input.batch_sizes},
                                   first[index], parameters[index], backwards);
      outputs.push_back(std::move(done.output));
      result.last.push_back(std::move(done.last));
    }
    result.output = outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
    if (options.dropout != 0 && options.train &&
        layer + 1 < options.num_layers) {
      result.output = at::dropout(result.output, options.dropout, true);
    }
  }
  return result;
}

}  // namespace torch_openreg
