// Layer, batch and group normalisation.
#include <c10/util/accumulate.h>

#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

// Whether the last sizes of the tensor are these.
bool ends_with(at::IntArrayRef sizes, at::IntArrayRef end) {
  return !end.empty() && sizes.size() >= end.size() &&
         sizes.slice(sizes.size() - end.size()) == end;
}

// (input, normalized_shape, weight, bias, eps)
bool layer_norm(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(0);
  const at::DimVector normalized = call.integers(1);
  if (!is_ordinary(input) || !ends_with(input.sizes(), normalized) ||
      !is_optional(call, 2, normalized) || !is_optional(call, 3, normalized)) {
    return false;
  }
  at::DimVector statistics(input.sizes());
  for (size_t i = 1; i <= normalized.size(); ++i) {
    statistics[statistics.size() - i] = 1;
  }
  outputs.push_back(contiguous(input.sizes()));
  outputs.push_back(contiguous(statistics));
  outputs.push_back(contiguous(statistics));
  return true;
}

void push_if(bool wanted, at::IntArrayRef sizes, Shapes& outputs) {
  if (wanted) {
    outputs.push_back(contiguous(sizes));
  } else {
    outputs.emplace_back();
  }
}

// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
bool layer_norm_backward(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(1);
  const at::DimVector normalized = call.integers(2);
  if (!is_ordinary(call.tensor(0)) || !is_ordinary(input) ||
      call.tensor(0).sizes() != input.sizes() ||
      !ends_with(input.sizes(), normalized)) {
    return false;
  }
  const int64_t rows =
      input.numel() / c10::multiply_integers(at::IntArrayRef(normalized));
  for (const size_t i : {3, 4}) {
    if (!is_contiguous(call.tensor(i)) || call.tensor(i).numel() != rows) {
      return false;
    }
  }
  for (const size_t i : {5, 6}) {
    if (!is_optional(call, i, normalized) ||
        (call.boolean(7, i - 4) && !call.has_tensor(i))) {
      return false;
    }
  }
  push_if(call.boolean(7, 0), input.sizes(), outputs);
  push_if(call.boolean(7, 1), normalized, outputs);
  push_if(call.boolean(7, 2), normalized, outputs);
  return true;
}

// Whether the arguments from `first` to `last` are undefined, or have one
// number a channel.
bool are_per_channel(const Call& call, size_t first, size_t last,
                     int64_t channels) {
  for (size_t i = first; i <= last; ++i) {
    if (!is_optional(call, i, {channels})) return false;
  }
  return true;
}

// (input, weight, bias, running_mean, running_var, training, momentum, eps)
bool batch_norm(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(0);
  if (!is_contiguous(input) || input.dim() < 2 ||
      !are_per_channel(call, 1, 4, input.size(1))) {
    return false;
  }
  const bool training = call.boolean(5);
  if (!training && (!call.has_tensor(3) || !call.has_tensor(4))) return false;
  const int64_t kept = training ? input.size(1) : 0;
  outputs.push_back(contiguous(input.sizes()));
  outputs.push_back(contiguous({kept}));
  outputs.push_back(contiguous({kept}));
  return true;
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd,
// train, eps, output_mask)
bool batch_norm_backward(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(1);
  if (!is_contiguous(call.tensor(0)) || !is_contiguous(input) ||
      call.tensor(0).sizes() != input.sizes() || input.dim() < 2) {
    return false;
  }
  const int64_t channels = input.size(1);
  const size_t kept = call.boolean(7) ? 5 : 3;  // the statistics that are used
  if (!are_per_channel(call, 2, 2, channels) || !call.has_tensor(kept) ||
      !call.has_tensor(kept + 1) ||
      !are_per_channel(call, kept, kept + 1, channels)) {
    return false;
  }
  push_if(call.boolean(9, 0), input.sizes(), outputs);
  push_if(call.boolean(9, 1), {channels}, outputs);
  push_if(call.boolean(9, 2), {channels}, outputs);
  return true;
}

// Whether the tensor is what N, C and HxW, from argument `first` on, say.
bool is_as_told(const Call& call, const at::Tensor& tensor, size_t first) {
  return is_contiguous(tensor) && tensor.dim() >= 2 &&
         tensor.size(0) == call.integer(first) &&
         tensor.size(1) == call.integer(first + 1) &&
         tensor.numel() ==
             tensor.size(0) * tensor.size(1) * call.integer(first + 2) &&
         call.integer(first + 3) > 0 &&
         tensor.size(1) % call.integer(first + 3) == 0;
}

// (input, weight, bias, N, C, HxW, group, eps)
bool group_norm(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(0);
  if (!is_as_told(call, input, 3) ||
      !are_per_channel(call, 1, 2, input.size(1))) {
    return false;
  }
  const int64_t statistics[] = {input.size(0), call.integer(6)};
  outputs.push_back(contiguous(input.sizes()));
  outputs.push_back(contiguous(statistics));
  outputs.push_back(contiguous(statistics));
  return true;
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
bool group_norm_backward(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(1);
  if (!is_as_told(call, input, 5) || !is_contiguous(call.tensor(0)) ||
      call.tensor(0).sizes() != input.sizes() ||
      !are_per_channel(call, 4, 4, input.size(1))) {
    return false;
  }
  const int64_t statistics[] = {input.size(0), call.integer(8)};
  for (const size_t i : {2, 3}) {
    if (!is_contiguous(call.tensor(i)) ||
        call.tensor(i).sizes() != at::IntArrayRef(statistics)) {
      return false;
    }
  }
  const bool has_weight = call.has_tensor(4);
  for (const size_t i : {1, 2}) {
    if (call.boolean(9, i) && !has_weight) return false;
  }
  push_if(call.boolean(9, 0), input.sizes(), outputs);
  push_if(call.boolean(9, 1), {input.size(1)}, outputs);
  push_if(call.boolean(9, 2), {input.size(1)}, outputs);
  return true;
}

constexpr NamedRule kRules[] = {
    {"native_batch_norm", &batch_norm},
    {"native_batch_norm_backward", &batch_norm_backward},
    {"native_group_norm", &group_norm},
    {"native_group_norm_backward", &group_norm_backward},
    {"native_layer_norm", &layer_norm},
    {"native_layer_norm_backward", &layer_norm_backward},
};

}  // namespace

std::span<const NamedRule> normalization_rules() { return kRules; }

}  // namespace torch_openreg::shapes
