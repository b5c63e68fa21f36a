// Numbers, and nothing, between ATen's values and launch records.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>

#include "backend/simulation/record/reader.h"
#include "backend/simulation/record/writer.h"

namespace torch_openreg {

// Returns false if the value is something else.
inline bool write_scalar(const c10::IValue& value, record::Writer& writer) {
  if (value.isNone()) {
    writer.add_none();
  } else if (value.isInt()) {
    writer.add_int(value.toInt());
  } else if (value.isUnsigned()) {
    writer.add_unsigned(value.toUInt());
  } else if (value.isDouble()) {
    writer.add_float(value.toDouble());
  } else if (value.isBool()) {
    writer.add_bool(value.toBool());
  } else if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    writer.add_complex(number.real(), number.imag());
  } else {
    return false;
  }
  return true;
}

// None if the argument is something else.
inline std::optional<c10::IValue> read_scalar(
    const record::Argument& argument) {
  switch (argument.tag) {
    case record::Tag::kNone:
      return c10::IValue();
    case record::Tag::kInt:
      return argument.integer;
    case record::Tag::kUnsigned:
      return static_cast<uint64_t>(argument.integer);
    case record::Tag::kFloat:
      return argument.values[0];
    case record::Tag::kBool:
      return argument.number != 0;
    case record::Tag::kComplex:
      return c10::complex<double>(argument.values[0], argument.values[1]);
    default:
      return std::nullopt;
  }
}

}  // namespace torch_openreg
