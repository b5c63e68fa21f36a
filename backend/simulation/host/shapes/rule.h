// Shape rules: what the outputs of operators without a Meta kernel in C++ look
// like. Each family has a file; rules.h finds the rule of an operator.
#pragma once

#include <ATen/core/DimVector.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <span>
#include <string_view>

namespace torch_openreg::shapes {

// Note [Shape rules]
// A rule says the sizes and strides of an operator's outputs, exactly as the
// CPU's kernel makes them. It knows no dtypes: those, and which outputs are
// defined, are the same for all calls of one signature, and the engine has seen
// one. A rule that is not sure, because an argument is wrong, empty or laid out
// in an unusual way, returns false: then the operator itself is asked. The
// tests compare every rule with the operator, on all samples of PyTorch's
// database.

struct Shape {
  at::DimVector sizes;
  at::DimVector strides;
};

// By output; none where it is undefined.
using Shapes = c10::SmallVector<std::optional<Shape>, 4>;

// The arguments of a call, in the order of the schema.
class Call {
 public:
  explicit Call(std::span<const c10::IValue> arguments)
      : arguments_(arguments) {}

  size_t size() const { return arguments_.size(); }
  const c10::IValue& operator[](size_t i) const { return arguments_[i]; }

  bool has_tensor(size_t i) const {
    return arguments_[i].isTensor() && arguments_[i].toTensor().defined();
  }
  const at::Tensor& tensor(size_t i) const { return arguments_[i].toTensor(); }
  int64_t integer(size_t i) const { return arguments_[i].toInt(); }
  bool boolean(size_t i) const { return arguments_[i].toBool(); }
  at::DimVector integers(size_t i) const { return arguments_[i].toDimVector(); }
  // Of a list of booleans.
  bool boolean(size_t i, size_t element) const {
    return arguments_[i].toBoolList()[element];
  }

 private:
  std::span<const c10::IValue> arguments_;
};

// Appends the shapes of all outputs. False if the rule does not know; what it
// has appended means nothing then. May throw c10::Error, which means the same.
using Rule = bool (*)(const Call& call, Shapes& outputs);

struct NamedRule {
  std::string_view name;  // with its overload; "name*" is all overloads
  Rule rule;
};

// Of each family.
std::span<const NamedRule> attention_rules();
std::span<const NamedRule> convolution_rules();
std::span<const NamedRule> elementwise_rules();
std::span<const NamedRule> factory_rules();
std::span<const NamedRule> indexing_rules();
std::span<const NamedRule> list_rules();
std::span<const NamedRule> normalization_rules();
std::span<const NamedRule> pooling_rules();
std::span<const NamedRule> recurrent_rules();
std::span<const NamedRule> reduction_rules();

// An output without gaps.
Shape contiguous(at::IntArrayRef sizes);

// Whether the tensor has elements and nothing lazy about it.
bool is_ordinary(const at::Tensor& tensor);
// The same with the strides of contiguous() to the letter. PyTorch calls more
// tensors contiguous: where a dimension has one element, its stride says
// nothing about the memory, but it can make the tensor channels-last as well,
// and some kernels hand it on.
bool is_contiguous(const at::Tensor& tensor);

// Whether argument `i` is undefined, or a contiguous tensor of these sizes.
bool is_optional(const Call& call, size_t i, at::IntArrayRef sizes);

}  // namespace torch_openreg::shapes
