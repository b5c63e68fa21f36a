// Convolutions, forward and backward. The CPU lays the output out as the input
// and the weight are; these rules know contiguous ones.
#include <c10/util/irange.h>

#include <algorithm>

#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

struct Convolution {
  at::DimVector stride;
  at::DimVector padding;
  at::DimVector dilation;
  bool transposed;
  at::DimVector output_padding;
  int64_t groups;
};

// The arguments from the stride, number `first`, on; a list of one number
// stands for all dimensions. None if the lists have other lengths.
std::optional<Convolution> read(const Call& call, size_t first,
                                size_t dimensions) {
  Convolution options{call.integers(first),     call.integers(first + 1),
                      call.integers(first + 2), call.boolean(first + 3),
                      call.integers(first + 4), call.integer(first + 5)};
  for (at::DimVector* const list :
       {&options.stride, &options.padding, &options.dilation,
        &options.output_padding}) {
    if (list->size() == 1) list->resize(dimensions, (*list)[0]);
    if (list->size() != dimensions) return std::nullopt;
  }
  const auto is_above = [](int64_t least) {
    return [least](int64_t number) { return number > least; };
  };
  const bool is_good =
      options.groups > 0 && std::ranges::all_of(options.stride, is_above(0)) &&
      std::ranges::all_of(options.dilation, is_above(0)) &&
      std::ranges::all_of(options.padding, is_above(-1)) &&
      std::ranges::all_of(options.output_padding, is_above(-1));
  return is_good ? std::optional(options) : std::nullopt;
}

// None if the input is too small.
std::optional<int64_t> output_size(const Convolution& options, size_t i,
                                   int64_t input, int64_t kernel) {
  const int64_t reach = options.dilation[i] * (kernel - 1);
  const int64_t padded = 2 * options.padding[i];
  int64_t size = 0;
  if (options.transposed) {
    if (options.output_padding[i] >=
        std::max(options.stride[i], options.dilation[i])) {
      return std::nullopt;
    }
    size = (input - 1) * options.stride[i] - padded + reach +
           options.output_padding[i] + 1;
  } else {
    const int64_t room = input + padded - reach - 1;
    if (room < 0) return std::nullopt;
    size = room / options.stride[i] + 1;
  }
  return size > 0 ? std::optional(size) : std::nullopt;
}

// The output's sizes; none if the arguments don't fit together.
std::optional<at::DimVector> output_sizes(const at::Tensor& input,
                                          const at::Tensor& weight,
                                          const Convolution& options) {
  const int64_t groups = options.groups;
  const int64_t from =
      options.transposed ? weight.size(0) : weight.size(1) * groups;
  const int64_t to =
      options.transposed ? weight.size(1) * groups : weight.size(0);
  if (input.size(1) != from || weight.size(0) % groups != 0) {
    return std::nullopt;
  }
  at::DimVector sizes{input.size(0), to};
  for (const auto i : c10::irange(options.stride.size())) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const auto size =
        output_size(options, i, input.size(dim), weight.size(dim));
    if (!size.has_value()) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

bool are_suitable(const at::Tensor& input, const at::Tensor& weight) {
  return is_contiguous(input) && is_contiguous(weight) && input.dim() >= 3 &&
         input.dim() <= 5 && input.dim() == weight.dim();
}

// (input, weight, bias, stride, padding, dilation, transposed, output_padding,
// groups, …)
bool convolution(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(0);
  const at::Tensor& weight = call.tensor(1);
  if (!are_suitable(input, weight)) return false;
  const auto options = read(call, 3, static_cast<size_t>(input.dim()) - 2);
  if (!options.has_value()) return false;
  const auto sizes = output_sizes(input, weight, *options);
  if (!sizes.has_value() || !is_optional(call, 2, {(*sizes)[1]})) return false;
  outputs.push_back(contiguous(*sizes));
  return true;
}

// (grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, output_mask)
bool convolution_backward(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(1);
  const at::Tensor& weight = call.tensor(2);
  if (!is_ordinary(call.tensor(0)) || !are_suitable(input, weight)) {
    return false;
  }
  const auto options = read(call, 4, static_cast<size_t>(input.dim()) - 2);
  if (!options.has_value()) return false;
  const auto sizes = output_sizes(input, weight, *options);
  if (!sizes.has_value() || call.tensor(0).sizes() != at::IntArrayRef(*sizes)) {
    return false;
  }
  const at::IntArrayRef gradients[] = {input.sizes(), weight.sizes(),
                                       at::IntArrayRef(*sizes).slice(1, 1)};
  for (const auto i : c10::irange(std::size(gradients))) {
    if (call.boolean(10, i)) {
      outputs.push_back(contiguous(gradients[i]));
    } else {
      outputs.emplace_back();
    }
  }
  return true;
}

constexpr NamedRule kRules[] = {
    {"_convolution", &convolution},
    {"convolution", &convolution},
    {"convolution_backward", &convolution_backward},
};

}  // namespace

std::span<const NamedRule> convolution_rules() { return kRules; }

}  // namespace torch_openreg::shapes
