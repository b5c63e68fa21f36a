// Operators by the C++ types of their arguments: those that are called without
// boxing, on both sides.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "backend/pytorch/schema.h"

namespace torch_openreg {

// The schema's type for a C++ type of arguments.
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
struct SchemaType<double> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::FloatType;
  }
};
template <>
struct SchemaType<std::string_view> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::StringType;
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
template <>
struct SchemaType<c10::SymIntArrayRef> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::ListType &&
           type.expectRef<c10::ListType>().getElementType()->kind() ==
               c10::TypeKind::SymIntType;
  }
};
template <>
struct SchemaType<const at::ITensorListRef&> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::ListType &&
           SchemaType<const at::Tensor&>::is(
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
template <typename Type>
struct SchemaType<const std::optional<Type>&> {
  static bool is(const c10::Type& type) {
    return type.kind() == c10::TypeKind::OptionalType &&
           SchemaType<const Type&>::is(
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

// Whether the results are so many tensors, none of which is an argument.
inline bool gives_new_tensors(const c10::FunctionSchema& schema, size_t count) {
  return schema.returns().size() == count &&
         std::ranges::all_of(schema.returns(), [](const c10::Argument& value) {
           return value.alias_info() == nullptr &&
                  value.type()->kind() == c10::TypeKind::TensorType;
         });
}

// Calls `visit`, as `visit.template operator()<Types...>()`, with those of
// these lists of arguments that the schema has, until one returns true. Most
// small operators of one new tensor have one of them, and are called without
// boxing. True if one did.
template <typename Visit>
bool visit_common_signature(const c10::FunctionSchema& schema, Visit visit) {
  using Tensor = const at::Tensor&;
  using Scalar = const at::Scalar&;
  using OptionalScalar = const std::optional<at::Scalar>&;
  using Dtype = std::optional<at::ScalarType>;
  const auto fits = [&]<typename... Types>() {
    return takes<Types...>(schema.arguments()) &&
           visit.template operator()<Types...>();
  };
  // A list of tensors has other types in C++ for other operators.
  if (schema.name() == "aten::cat") {
    return fits.template operator()<const at::ITensorListRef&, int64_t>();
  }
  return fits.template operator()<Tensor>() ||
         fits.template operator()<Tensor, Tensor>() ||
         fits.template operator()<Tensor, Scalar>() ||
         fits.template operator()<Tensor, Tensor, Scalar>() ||
         // where, addcmul, addmm
         fits.template operator()<Tensor, Tensor, Tensor>() ||
         fits.template operator()<Tensor, Tensor, Tensor, Scalar>() ||
         fits.template operator()<Tensor, Tensor, Tensor, Scalar, Scalar>() ||
         // clamp, softplus, elu, gelu
         fits.template operator()<Tensor, OptionalScalar, OptionalScalar>() ||
         fits.template operator()<Tensor, Scalar, Scalar>() ||
         fits.template operator()<Tensor, Scalar, Scalar, Scalar>() ||
         fits.template operator()<Tensor, std::string_view>() ||
         // sum, mean, amax, argmax, cumsum
         fits.template operator()<Tensor, Dtype>() ||
         fits.template
         operator()<Tensor, at::OptionalIntArrayRef, bool, Dtype>() ||
         fits.template operator()<Tensor, at::IntArrayRef, bool>() ||
         fits.template operator()<Tensor, std::optional<int64_t>, bool>() ||
         fits.template operator()<Tensor, int64_t, Dtype>() ||
         // softmax and its gradient
         fits.template operator()<Tensor, int64_t, bool>() ||
         fits.template operator()<Tensor, Tensor, int64_t, at::ScalarType>() ||
         // tril, flip, index_select, gather, scatter
         fits.template operator()<Tensor, int64_t>() ||
         fits.template operator()<Tensor, at::IntArrayRef>() ||
         fits.template operator()<Tensor, int64_t, Tensor>() ||
         fits.template operator()<Tensor, int64_t, Tensor, bool>() ||
         fits.template operator()<Tensor, int64_t, Tensor, Tensor>();
}

// The same for operators of several new tensors, which a tuple of `Results` is,
// as `visit.template operator()<Results, Types...>()`.
template <typename Visit>
bool visit_common_signature_of_many(const c10::FunctionSchema& schema,
                                    Visit visit) {
  using Tensor = const at::Tensor&;
  using OptionalTensor = const std::optional<at::Tensor>&;
  using Two = std::tuple<at::Tensor, at::Tensor>;
  using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  const auto fits = [&]<typename Results, typename... Types>() {
    return gives_new_tensors(schema, std::tuple_size_v<Results>) &&
           takes<Types...>(schema.arguments()) &&
           visit.template operator()<Results, Types...>();
  };
  // native_layer_norm, _scaled_dot_product_flash_attention_for_cpu
  return fits.template operator()<Three, Tensor, c10::SymIntArrayRef,
                                  OptionalTensor, OptionalTensor, double>() ||
         fits.template operator()<Two, Tensor, Tensor, Tensor, double, bool,
                                  OptionalTensor, std::optional<double>>();
}

}  // namespace torch_openreg
