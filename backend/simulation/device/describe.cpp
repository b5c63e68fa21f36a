#include "backend/simulation/device/describe.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <sstream>

namespace torch_openreg::device {

namespace {

using record::Argument;
using record::Tag;

void describe_tensor(const record::TensorView& tensor, std::ostream& out) {
  const bool is_known =
      tensor.dtype < static_cast<uint8_t>(c10::ScalarType::Undefined);
  out << (is_known ? c10::toString(static_cast<c10::ScalarType>(tensor.dtype))
                   : "?")
      << at::IntArrayRef(tensor.sizes);
}

bool describe_next(record::Reader& reader, std::ostream& out);

bool describe_list(record::Reader& reader, uint32_t length, std::ostream& out) {
  constexpr uint32_t kShown = 8;
  out << '[';
  for (uint32_t i = 0; i < length; ++i) {
    if (i == kShown) {
      out << ", ... " << length << " in all]";
      return false;  // the rest of the call is left out as well
    }
    if (i > 0) out << ", ";
    if (!describe_next(reader, out)) return false;
  }
  out << ']';
  return true;
}

// By what it is and the parts that are tensors, short of lists of numbers.
bool describe_composite(record::Reader& reader, record::Composite kind,
                        std::ostream& out) {
  constexpr std::array<const char*, 9> kNames = {
      "coo",    "csr",       "csc",       "bsr",        "bsc",
      "nested", "quantized", "quantized", "per_channel"};
  out << kNames.at(static_cast<size_t>(kind)) << '(';
  bool is_first = true;
  for (size_t left = record::parts_of(kind).size(); left > 0; --left) {
    Argument part;
    if (!reader.next_argument(&part)) return false;
    if (part.tag != Tag::kTensor) continue;
    if (!is_first) out << ", ";
    is_first = false;
    describe_tensor(part.tensor, out);
  }
  out << ')';
  return true;
}

bool describe_next(record::Reader& reader, std::ostream& out) {
  Argument argument;
  if (!reader.next_argument(&argument)) return false;
  switch (argument.tag) {
    case Tag::kTensor:
      describe_tensor(argument.tensor, out);
      return true;
    case Tag::kHostValue:
      argument.tensor.sizes = {};
      describe_tensor(argument.tensor, out);
      return true;
    case Tag::kInt:
      out << argument.integer;
      return true;
    case Tag::kUnsigned:
      out << static_cast<uint64_t>(argument.integer);
      return true;
    case Tag::kFloat:
      out << argument.values[0];
      return true;
    case Tag::kBool:
      out << (argument.number != 0 ? "True" : "False");
      return true;
    case Tag::kComplex:
      out << argument.values[0] << '+' << argument.values[1] << 'j';
      return true;
    case Tag::kString:
      out << '\'' << argument.text << '\'';
      return true;
    case Tag::kIntList:
    case Tag::kBoolList:
      out << at::IntArrayRef(argument.integers);
      return true;
    case Tag::kFloatList:
      out << at::ArrayRef<double>(argument.floats);
      return true;
    case Tag::kTensorList:
    case Tag::kOptionalTensorList:
    case Tag::kScalarList:
      return describe_list(reader, argument.number, out);
    case Tag::kComposite:
      return describe_composite(reader, argument.composite, out);
    case Tag::kGenerator:
      out << "generator";
      return true;
    case Tag::kDevice:
      out << "device";
      return true;
    case Tag::kNone:
    case Tag::kUndefined:
      out << "None";
      return true;
    case Tag::kFloatValue:  // a reader gives kFloat and kInt for these
    case Tag::kIntValue:
      return false;
  }
  return false;
}

}  // namespace

std::string describe_call(record::Reader reader) {
  std::ostringstream out;
  out << reader.name() << '(';
  for (uint32_t i = 0; i < reader.header().argument_count; ++i) {
    if (i > 0) out << ", ";
    if (!describe_next(reader, out)) break;
  }
  out << ')';
  return out.str();
}

}  // namespace torch_openreg::device
