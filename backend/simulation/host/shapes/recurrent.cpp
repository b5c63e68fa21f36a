// The backward of oneDNN's recurrent layer. Its forward has no rule: how large
// its workspace is, only oneDNN knows.
#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

// (input, weight_ih, weight_hh, bias_ih, bias_hh, hx, cx, output, hy, cy,
// grad_output, grad_hy, grad_cy, …). The gradients of the first five, then of
// the states.
bool rnn_layer_backward(const Call& call, Shapes& outputs) {
  if (!call.has_tensor(10) && !call.has_tensor(11) && !call.has_tensor(12)) {
    return false;
  }
  for (size_t i = 0; i < 7; ++i) {
    if (!call.has_tensor(i) || !is_contiguous(call.tensor(i))) return false;
    outputs.push_back(contiguous(call.tensor(i).sizes()));
  }
  return true;
}

constexpr NamedRule kRules[] = {
    {"mkldnn_rnn_layer_backward", &rnn_layer_backward},
};

}  // namespace

std::span<const NamedRule> recurrent_rules() { return kRules; }

}  // namespace torch_openreg::shapes
