#include "backend/simulation/device/argument_types.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <stdexcept>

namespace torch_openreg::device {

namespace {

template <typename Enumeration>
bool is_below(const c10::IValue& value, Enumeration end) {
  return value.isInt() && value.toInt() >= 0 &&
         value.toInt() < static_cast<int64_t>(end);
}

// Lists of numbers come as they were encoded: those of symbolic integers as
// scalars. What they hold, the kernel's own conversion checks.
bool is_list_of(const c10::Type& element, const c10::IValue& value) {
  if (element.kind() == c10::TypeKind::TensorType) return value.isTensorList();
  if (element.kind() == c10::TypeKind::OptionalType) {
    return value.isOptionalTensorList();
  }
  return value.isList() && !value.isTensorList() &&
         !value.isOptionalTensorList();
}

bool is_of(const c10::Type& type, const c10::IValue& value) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return value.isNone() ||
             is_of(*type.expectRef<c10::OptionalType>().getElementType(),
                   value);
    case c10::TypeKind::ListType:
      return is_list_of(*type.expectRef<c10::ListType>().getElementType(),
                        value);
    case c10::TypeKind::TensorType:
      return value.isTensor();
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return value.isInt();
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return value.isDouble();
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return value.isBool();
    case c10::TypeKind::NumberType:
      return value.isScalar() || value.isUnsigned();
    case c10::TypeKind::ScalarTypeType:
      return is_below(value, c10::ScalarType::Undefined);
    case c10::TypeKind::LayoutType:
      return is_below(value, c10::Layout::NumOptions);
    case c10::TypeKind::MemoryFormatType:
      return is_below(value, c10::MemoryFormat::NumOptions);
    case c10::TypeKind::StringType:
      return value.isString();
    case c10::TypeKind::DeviceObjType:
      return value.isDevice();
    case c10::TypeKind::GeneratorType:
      return value.isGenerator();
    default:
      return false;
  }
}

}  // namespace

void check_arguments(const c10::FunctionSchema& schema,
                     const torch::jit::Stack& arguments) {
  const auto& declared = schema.arguments();
  if (arguments.size() != declared.size()) {
    throw std::invalid_argument("a malformed launch record: argument count");
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    if (is_of(*declared[i].real_type(), arguments[i])) continue;
    throw std::invalid_argument("a malformed launch record: argument '" +
                                declared[i].name() + "' of " + schema.name());
  }
}

}  // namespace torch_openreg::device
