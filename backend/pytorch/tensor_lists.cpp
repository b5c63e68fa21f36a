#include "backend/pytorch/tensor_lists.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <optional>

namespace torch_openreg {

namespace {

// Tensor?[]
bool is_list_of_optional_tensors(const c10::Type& type) {
  const auto* const list = type.castRaw<c10::ListType>();
  if (list == nullptr) return false;
  const auto* const element =
      list->getElementType()->castRaw<c10::OptionalType>();
  return element != nullptr &&
         element->getElementType()->kind() == c10::TypeKind::TensorType;
}

c10::List<std::optional<at::Tensor>> unified(const c10::IValue& value) {
  c10::List<std::optional<at::Tensor>> list;
  const at::ArrayRef<c10::IValue> elements = value.toListRef();
  list.reserve(elements.size());
  for (const c10::IValue& element : elements) {
    list.push_back(element.toOptional<at::Tensor>());
  }
  return list;
}

}  // namespace

bool takes_optional_tensors(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), [](const auto& argument) {
    return is_list_of_optional_tensors(*argument.type());
  });
}

void unify_optional_tensors(const c10::FunctionSchema& schema,
                            std::span<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = arguments[i];
    if (!value.isList() || value.isOptionalTensorList()) continue;
    if (!is_list_of_optional_tensors(*schema.arguments()[i].type())) continue;
    value = unified(value);
  }
}

bool spans_devices(std::span<const c10::IValue> arguments) {
  std::optional<c10::Device> first;
  for (const c10::IValue& value : arguments) {
    if (!value.isTensorList()) continue;
    for (const c10::IValue& element : value.toListRef()) {
      const at::Tensor& tensor = element.toTensor();
      if (!tensor.defined()) continue;
      const c10::Device device = tensor.device();
      if (first.value_or(device) != device) return true;
      first = device;
    }
  }
  return false;
}

}  // namespace torch_openreg
