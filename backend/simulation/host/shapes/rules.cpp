#include "backend/simulation/host/shapes/rules.h"

#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <vector>

#include "backend/simulation/common/lazy_flags.h"
#include "backend/simulation/host/metadata.h"

namespace torch_openreg::shapes {

namespace {

std::vector<NamedRule> sorted_rules() {
  std::vector<NamedRule> rules;
  for (const auto family :
       {attention_rules(), convolution_rules(), elementwise_rules(),
        factory_rules(), indexing_rules(), list_rules(), normalization_rules(),
        pooling_rules(), recurrent_rules(), reduction_rules()}) {
    rules.insert(rules.end(), family.begin(), family.end());
  }
  std::ranges::sort(rules, {}, &NamedRule::name);
  return rules;
}

Rule find(std::string_view name) {
  static const auto& rules = *new std::vector<NamedRule>(sorted_rules());
  const auto found =
      std::ranges::lower_bound(rules, name, {}, &NamedRule::name);
  return found != rules.end() && found->name == name ? found->rule : nullptr;
}

bool ask(Rule rule, std::span<const c10::IValue> arguments, Shapes& shapes) {
  try {
    return rule(Call(arguments), shapes);
  } catch (const c10::Error&) {
    return false;  // the operator tells what is wrong
  }
}

bool are_floats(std::span<const c10::IValue> arguments) {
  return std::ranges::none_of(arguments, [](const c10::IValue& value) {
    return value.isTensorList() ||
           (value.isTensor() && value.toTensor().defined() &&
            value.toTensor().scalar_type() != at::kFloat);
  });
}

}  // namespace

Rule find_rule(const c10::OperatorName& name, std::string_view full_name) {
  constexpr std::string_view kPrefix = "aten::";
  if (!full_name.starts_with(kPrefix)) return nullptr;
  if (const Rule rule = find(full_name.substr(kPrefix.size()))) return rule;
  return find(name.name.substr(kPrefix.size()) + '*');
}

std::shared_ptr<const record::CallMetadata> apply_to_floats(
    Rule rule, std::span<const c10::IValue> arguments) {
  Shapes shapes;
  if (!are_floats(arguments) || !ask(rule, arguments, shapes)) return nullptr;
  auto metadata = std::make_shared<record::CallMetadata>();
  for (const std::optional<Shape>& shape : shapes) {
    metadata->returns.push_back(record::CallMetadata::kSingle);
    metadata->outputs.push_back(
        shape.has_value()
            ? output_shape(at::kFloat, shape->sizes, shape->strides)
            : record::OutputShape());
  }
  return metadata;
}

std::shared_ptr<const record::CallMetadata> apply(
    Rule rule, std::span<const c10::IValue> arguments,
    const record::CallMetadata& pattern) {
  Shapes shapes;
  if (!ask(rule, arguments, shapes)) return nullptr;
  if (shapes.size() != pattern.outputs.size()) return nullptr;
  auto metadata = std::make_shared<record::CallMetadata>();
  metadata->returns = pattern.returns;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const record::OutputShape& like = pattern.outputs[i];
    if (shapes[i].has_value() == like.tensor.empty()) return nullptr;
    if (like.tensor.empty()) {
      metadata->outputs.emplace_back();
      continue;
    }
    const auto first = record::FirstWord::unpack(like.tensor[0]);
    metadata->outputs.push_back(
        output_shape(static_cast<c10::ScalarType>(first.dtype),
                     shapes[i]->sizes, shapes[i]->strides, first.flags));
  }
  return metadata;
}

Shape contiguous(at::IntArrayRef sizes) {
  Shape shape{at::DimVector(sizes), at::DimVector(sizes.size())};
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    shape.strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return shape;
}

bool is_ordinary(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0 && lazy_flags(tensor) == 0;
}

bool is_contiguous(const at::Tensor& tensor) {
  if (!is_ordinary(tensor)) return false;
  int64_t stride = 1;
  for (int64_t dim = tensor.dim(); dim-- > 0;) {
    if (tensor.stride(dim) != stride) return false;
    stride *= tensor.size(dim);
  }
  return true;
}

bool is_optional(const Call& call, size_t i, at::IntArrayRef sizes) {
  if (!call.has_tensor(i)) return true;
  const at::Tensor& tensor = call.tensor(i);
  return is_contiguous(tensor) && tensor.sizes() == sizes;
}

}  // namespace torch_openreg::shapes
