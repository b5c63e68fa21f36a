// What both sides read from an operator's schema.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Scalar.h>
#include <c10/util/OptionalArrayRef.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

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

// What a schema has for a C++ type of arguments.
template <typename Type>
struct SchemaType;
template <>
struct SchemaType<const at::Tensor&> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::TensorType;
  }
};
template <>
struct SchemaType<const at::Scalar&> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::NumberType;
  }
};
template <>
struct SchemaType<int64_t> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::IntType;
  }
};
template <>
struct SchemaType<bool> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::BoolType;
  }
};
template <>
struct SchemaType<at::ScalarType> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::ScalarTypeType;
  }
};
template <>
struct SchemaType<at::IntArrayRef> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::ListType &&
           SchemaType<int64_t>::is(
               *type.expectRef<c10::ListType>().getElementType());
  }
};
template <typename Type>
struct SchemaType<std::optional<Type>> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::OptionalType &&
           SchemaType<Type>::is(
               *type.expectRef<c10::OptionalType>().getElementType());
  }
};
template <>
struct SchemaType<at::OptionalIntArrayRef>
    : SchemaType<std::optional<at::IntArrayRef>> {};
template <>
struct SchemaType<const std::optional<at::Scalar>&> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::OptionalType &&
           SchemaType<const at::Scalar&>::is(
               *type.expectRef<c10::OptionalType>().getElementType());
  }
};

// Whether these are arguments of these types, which the operator only reads.
template <typename... Types>
bool takes(std::span<const c10::Argument> arguments) {
  if (arguments.size() != sizeof...(Types)) return false;
  const c10::Argument* next = arguments.data();
  [[maybe_unused]] const auto fits = [&next]<typename Type>(
                                         std::type_identity<Type> /*type*/) {
    const c10::Argument& argument = *next++;
    return SchemaType<Type>::is(*argument.real_type()) && !is_written(argument);
  };
  return (fits(std::type_identity<Types>()) && ...);
}

// Calls `visit` with each of the lists of arguments that most small operators
// have, as `visit.template operator()<Types...>()`, until one returns true.
// Operators with these arguments are called without boxing. True if one did.
template <typename Visit>
bool visit_common_signatures(Visit visit) {
  using Tensor = const at::Tensor&;
  using Scalar = const at::Scalar&;
  using OptionalScalar = const std::optional<at::Scalar>&;
  using Dtype = std::optional<at::ScalarType>;
  return visit.template operator()<Tensor>() ||
         visit.template operator()<Tensor, Tensor>() ||
         visit.template operator()<Tensor, Scalar>() ||
         visit.template operator()<Tensor, Tensor, Scalar>() ||
         // where, addcmul, addmm
         visit.template operator()<Tensor, Tensor, Tensor>() ||
         visit.template operator()<Tensor, Tensor, Tensor, Scalar>() ||
         visit.template operator()<Tensor, Tensor, Tensor, Scalar, Scalar>() ||
         // clamp, softplus, elu
         visit.template operator()<Tensor, OptionalScalar, OptionalScalar>() ||
         visit.template operator()<Tensor, Scalar, Scalar>() ||
         visit.template operator()<Tensor, Scalar, Scalar, Scalar>() ||
         // sum, mean, amax, argmax, cumsum
         visit.template operator()<Tensor, Dtype>() ||
         visit.template
         operator()<Tensor, at::OptionalIntArrayRef, bool, Dtype>() ||
         visit.template operator()<Tensor, at::IntArrayRef, bool>() ||
         visit.template operator()<Tensor, std::optional<int64_t>, bool>() ||
         visit.template operator()<Tensor, int64_t, Dtype>() ||
         // softmax and its gradient
         visit.template operator()<Tensor, int64_t, bool>() ||
         visit.template operator()<Tensor, Tensor, int64_t, at::ScalarType>() ||
         // tril, flip, index_select, gather, scatter
         visit.template operator()<Tensor, int64_t>() ||
         visit.template operator()<Tensor, at::IntArrayRef>() ||
         visit.template operator()<Tensor, int64_t, Tensor>() ||
         visit.template operator()<Tensor, int64_t, Tensor, bool>() ||
         visit.template operator()<Tensor, int64_t, Tensor, Tensor>();
}

}  // namespace torch_openreg
