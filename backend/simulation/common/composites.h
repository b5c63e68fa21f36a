// Tensors that are more than a storage and strides (sparse, nested and
// quantized ones), taken apart and put together. Built into both sides; keeps
// no state. How records hold them is in backend/simulation/record/format.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <optional>

#include "backend/pytorch/tensor_kinds.h"
#include "backend/simulation/record/format.h"
#include "backend/simulation/record/reader.h"
#include "backend/simulation/record/writer.h"

namespace torch_openreg {

// The parts of a composite: plain tensors on its own device, and numbers.
// The types are those of record::parts_of(kind).
struct Parts {
  record::Composite kind{};
  c10::SmallVector<c10::IValue, 8> values;
};

// The parts of `tensor`, which share its memory; none if it is of no kind that
// records know. Parameters of a quantizer that lie elsewhere are copied to the
// tensor's device.
std::optional<Parts> take_apart(const at::Tensor& tensor);

// The opposite. Throws c10::Error for parts that can't belong together: no
// tensor reaches beyond its memory. What indices say is not looked at.
at::Tensor put_together(const Parts& parts);

// Throws c10::Error for parts of shapes that kernels don't expect. (Some
// kernels give such tensors.)
void check_shapes(const Parts& parts);

// Whether they are the same tensors, over the same memory, and the same
// numbers.
bool are_same(const Parts& a, const Parts& b);

// Makes `tensor` a tensor like `fresh`, which is of the same layout; its
// version counter and its history stay.
void assign(const at::Tensor& tensor, const at::Tensor& fresh);

// Writes the composite; `add_tensor` writes one of its tensors, and returns
// false if it can't.
template <typename AddTensor>
bool write_parts(const Parts& parts, record::Writer& writer,
                 AddTensor add_tensor) {
  writer.begin_composite(parts.kind);
  for (const c10::IValue& value : parts.values) {
    if (value.isTensor()) {
      if (!add_tensor(value.toTensor())) return false;
    } else if (value.isIntList()) {
      writer.add_ints(value.toIntVector());
    } else if (value.isDouble()) {
      writer.add_float(value.toDouble());
    } else if (value.isBool()) {
      writer.add_bool(value.toBool());
    } else {
      writer.add_int(value.toInt());
    }
  }
  return true;
}

// Reads the parts that follow the head; `make_tensor` gives the tensor that an
// argument describes. None if the record is malformed.
template <typename MakeTensor>
std::optional<Parts> read_parts(record::Composite kind, record::Reader& reader,
                                MakeTensor make_tensor) {
  Parts parts{kind, {}};
  for (size_t left = record::parts_of(kind).size(); left > 0; --left) {
    record::Argument part;
    if (!reader.next_argument(&part)) return std::nullopt;
    switch (part.tag) {
      case record::Tag::kTensor:
        parts.values.emplace_back(make_tensor(part));
        break;
      case record::Tag::kIntList:
        parts.values.emplace_back(at::IntArrayRef(part.integers));
        break;
      case record::Tag::kFloat:
        parts.values.emplace_back(part.values[0]);
        break;
      case record::Tag::kBool:
        parts.values.emplace_back(part.number != 0);
        break;
      default:
        parts.values.emplace_back(part.integer);
    }
  }
  return parts;
}

}  // namespace torch_openreg
