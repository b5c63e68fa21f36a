// What both sides read from an operator's schema.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <c10/core/Scalar.h>

#include <algorithm>
#include <array>

namespace torch_openreg {

// Whether the operator writes this argument; of a return, whether it is such an
// argument (in-place, out=), and so no new tensor.
inline bool is_written(const c10::Argument& argument) {
  const c10::AliasInfo* const alias = argument.alias_info();
  return alias != nullptr && alias->isWrite();
}

// Whether a result is a view of an argument. Views are the host's work.
inline bool is_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& value) {
    return value.alias_info() != nullptr && !value.alias_info()->isWrite();
  });
}

// A C++ type of arguments, as operators take them.
template <typename Type>
inline constexpr c10::TypeKind kKindOf = c10::TypeKind::AnyType;
template <>
inline constexpr c10::TypeKind kKindOf<const at::Tensor&> =
    c10::TypeKind::TensorType;
template <>
inline constexpr c10::TypeKind kKindOf<const at::Scalar&> =
    c10::TypeKind::NumberType;

// Whether the operator takes arguments of these types, which it only reads.
template <typename... Types>
bool takes(const c10::FunctionSchema& schema) {
  constexpr std::array<c10::TypeKind, sizeof...(Types)> kKinds = {
      kKindOf<Types>...};
  return std::ranges::equal(
      schema.arguments(), kKinds,
      [](const c10::Argument& argument, c10::TypeKind kind) {
        return argument.type()->kind() == kind && !is_written(argument);
      });
}

// Calls `visit` with each of the lists of arguments that most small operators
// have, as `visit.template operator()<Types...>()`, until one returns true.
// Operators with these arguments are called without boxing. True if one did.
template <typename Visit>
bool visit_common_signatures(Visit visit) {
  using Tensor = const at::Tensor&;
  using Scalar = const at::Scalar&;
  return visit.template operator()<Tensor>() ||
         visit.template operator()<Tensor, Tensor>() ||
         visit.template operator()<Tensor, Scalar>() ||
         visit.template operator()<Tensor, Tensor, Scalar>();
}

}  // namespace torch_openreg
