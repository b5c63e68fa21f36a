// Recurrent layers as the CPU runs them, operator by operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace torch_openreg {

// The state of a layer between two steps. Only an LSTM has `c`.
struct Hidden {
  at::Tensor h;
  at::Tensor c;
};

// The parameters of one layer and direction; undefined where there are none.
struct CellParameters {
  at::Tensor w_ih;
  at::Tensor w_hh;
  at::Tensor b_ih;
  at::Tensor b_hh;
  at::Tensor w_hr;  // the projection of an LSTM

  at::Tensor from_input(const at::Tensor& input) const;
  at::Tensor from_hidden(const at::Tensor& hidden) const;
};

// One step: takes the input's part of the gates and returns the new state.
using Cell = Hidden (*)(const at::Tensor& gates, const Hidden& hidden,
                        const CellParameters& parameters);
Hidden lstm_step(const at::Tensor& gates, const Hidden& hidden,
                 const CellParameters& parameters);
Hidden gru_step(const at::Tensor& gates, const Hidden& hidden,
                const CellParameters& parameters);
Hidden tanh_step(const at::Tensor& gates, const Hidden& hidden,
                 const CellParameters& parameters);
Hidden relu_step(const at::Tensor& gates, const Hidden& hidden,
                 const CellParameters& parameters);

// How layers follow each other.
struct LayerOptions {
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;
};

// The parameters of all layers, from the list that PyTorch has them in.
std::vector<CellParameters> gather_parameters(at::TensorList list,
                                              bool has_biases,
                                              bool has_projections);

struct Sequence {
  at::Tensor data;         // steps first, or packed
  at::Tensor batch_sizes;  // of a packed sequence, on the host; else undefined
};

// The output of the last layer, and the last state of each layer and direction.
struct LayersResult {
  at::Tensor output;
  std::vector<Hidden> last;
};

// Throws PyTorch's errors for wrong numbers of states and parameters.
LayersResult run_layers(Cell cell, const Sequence& input,
                        const std::vector<Hidden>& first,
                        const std::vector<CellParameters>& parameters,
                        const LayerOptions& options);

}  // namespace torch_openreg
