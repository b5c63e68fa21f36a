#include "backend/simulation/host/metadata.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "backend/simulation/common/composites.h"
#include "backend/simulation/common/lazy_flags.h"

namespace torch_openreg {

namespace {

// Whether a result is more than a storage and strides.
bool has_composites(const torch::jit::Stack& results) {
  return std::ranges::any_of(results, [](const c10::IValue& result) {
    if (result.isTensor()) return is_composite(result.toTensor());
    return result.isTensorList() &&
           std::ranges::any_of(result.toTensorVector(), is_composite);
  });
}

record::OutputShape shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return output_shape(tensor.scalar_type(), tensor.sizes(), tensor.strides(),
                      lazy_flags(tensor));
}

std::shared_ptr<record::CallMetadata> read_results(
    const OperatorInfo& info, const torch::jit::Stack& results) {
  auto metadata = std::make_shared<record::CallMetadata>();
  for (size_t i = 0; i < info.aliased.size(); ++i) {
    if (info.aliased[i] >= 0) continue;
    if (results[i].isTensor()) {
      metadata->returns.push_back(record::CallMetadata::kSingle);
      metadata->outputs.push_back(shape_of(results[i].toTensor()));
      continue;
    }
    const auto list = results[i].toTensorVector();
    metadata->returns.push_back(static_cast<int32_t>(list.size()));
    for (const at::Tensor& tensor : list) {
      metadata->outputs.push_back(shape_of(tensor));
    }
  }
  return metadata;
}

void read_resizes(const OperatorInfo& info,
                  std::span<const c10::IValue> arguments,
                  std::span<const c10::IValue> after,
                  record::CallMetadata& metadata) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!info.written[i] || !arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    const at::Tensor& now = after[i].toTensor();
    if (!tensor.defined() ||
        (now.sizes() == tensor.sizes() && now.strides() == tensor.strides() &&
         lazy_flags(now) == lazy_flags(tensor))) {
      continue;
    }
    metadata.resizes.push_back({static_cast<uint32_t>(i), now.sizes().vec(),
                                now.strides().vec(), lazy_flags(now)});
  }
}

// Of a shape that has dimensions.
bool has_at_most_one_element(const record::OutputShape& shape) {
  if (shape.tensor.empty()) return false;
  const size_t dimensions =
      record::FirstWord::unpack(shape.tensor[0]).dimensions;
  uint64_t elements = 1;
  for (size_t i = 0; i < dimensions; ++i) elements *= shape.tensor[1 + i];
  return dimensions != 0 && elements <= 1;
}

}  // namespace

record::OutputShape output_shape(c10::ScalarType dtype, at::IntArrayRef sizes,
                                 at::IntArrayRef strides, uint8_t flags) {
  record::OutputShape shape;
  shape.tensor.push_back(
      record::FirstWord{record::Tag::kTensor, static_cast<uint8_t>(dtype),
                        flags, static_cast<uint8_t>(sizes.size()), 0}
          .pack());
  shape.tensor.insert(shape.tensor.end(), sizes.begin(), sizes.end());
  shape.tensor.insert(shape.tensor.end(), strides.begin(), strides.end());
  shape.bytes =
      at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  return shape;
}

std::shared_ptr<const record::CallMetadata> read_metadata(
    const OperatorInfo& info, std::span<const c10::IValue> before,
    std::span<const c10::IValue> after, const torch::jit::Stack& results) {
  if (has_composites(results)) return nullptr;
  const auto metadata = read_results(info, results);
  if (!after.empty()) read_resizes(info, before, after, *metadata);
  return metadata;
}

bool can_resize_first(const OperatorInfo& info,
                      const record::CallMetadata& metadata) {
  const auto& arguments = info.op.schema().arguments();
  return std::ranges::all_of(
      metadata.resizes, [&](const record::CallMetadata::Resize& resize) {
        return arguments[resize.argument].is_out() && resize.flags == 0 &&
               c10::multiply_integers(resize.sizes) != 0;
      });
}

bool writes_overlapping(const OperatorInfo& info,
                        std::span<const c10::IValue> arguments) {
  const auto overlaps = [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() &&
           at::has_internal_overlap(value.toTensor()) == at::MemOverlap::Yes;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!info.written[i]) continue;
    const c10::IValue& value = arguments[i];
    if (value.isTensorList() ? std::ranges::any_of(value.toListRef(), overlaps)
                             : overlaps(value)) {
      return true;
    }
  }
  return false;
}

bool writes_shared(const OperatorInfo& info,
                   std::span<const c10::IValue> arguments) {
  struct Use {
    const c10::StorageImpl* storage;
    bool is_written;
  };
  c10::SmallVector<Use, 8> uses;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto add = [&](const c10::IValue& value) {
      if (!value.isTensor() || !value.toTensor().defined()) return;
      uses.push_back(
          {value.toTensor().storage().unsafeGetStorageImpl(), info.written[i]});
    };
    if (arguments[i].isList()) {
      for (const c10::IValue& element : arguments[i].toListRef()) add(element);
    } else {
      add(arguments[i]);
    }
  }
  std::ranges::sort(uses, {}, &Use::storage);
  for (size_t i = 1; i < uses.size(); ++i) {
    if (uses[i - 1].storage == uses[i].storage &&
        (uses[i - 1].is_written || uses[i].is_written)) {
      return true;
    }
  }
  return false;
}

bool has_idle_strides(const OperatorInfo& info,
                      const record::CallMetadata& metadata,
                      std::span<const c10::IValue> arguments) {
  if (std::ranges::any_of(metadata.outputs, has_at_most_one_element)) {
    return true;
  }
  if (!info.has_out) return false;
  const auto is_empty = [](const record::CallMetadata::Resize& resize) {
    return c10::multiply_integers(resize.sizes) == 0;
  };
  if (!metadata.resizes.empty()) {
    return std::ranges::any_of(metadata.resizes, is_empty);
  }
  const auto& schema = info.op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema[i].is_out() && arguments[i].isTensor() &&
        arguments[i].toTensor().numel() == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace torch_openreg
