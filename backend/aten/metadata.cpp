#include "backend/aten/metadata.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "backend/aten/stand_ins.h"
#include "backend/executor/clean_dispatch.h"
#include "backend/executor/composites.h"
#include "backend/executor/lazy_flags.h"
#include "backend/executor/warnings.h"

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

// Calls a kernel with stand-ins and reads what it gives.
template <typename Call>
std::shared_ptr<const record::CallMetadata> try_out(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceType where, bool ones, Call call) {
  StandIns stand_ins(where, ones);
  torch::jit::Stack stack;
  for (const c10::IValue& value : arguments) {
    stack.push_back(stand_ins.convert(value));
  }
  const torch::jit::Stack taken = stack;
  {
    const CleanDispatch clean;
    call(&stack);
  }
  if (has_composites(stack)) return nullptr;
  const auto metadata = read_results(info, stack);
  read_resizes(info, arguments, taken, *metadata);
  return metadata;
}

// Throws PyTorch's error for tensors on several devices, with the name of ours
// in the place of Meta's; returns if it is another one.
void rethrow_mixed_devices(const c10::Error& error, c10::DeviceIndex device) {
  std::string text = error.what_without_backtrace();
  if (text.find("on the same device") == std::string::npos) return;
  const std::string ours =
      c10::Device(c10::DeviceType::PrivateUse1, device).str();
  constexpr std::string_view kMeta = "meta";
  for (size_t at = text.find(kMeta); at != std::string::npos;
       at = text.find(kMeta, at + ours.size())) {
    text.replace(at, kMeta.size(), ours);
  }
  TORCH_CHECK(false, text);
}

std::shared_ptr<const record::CallMetadata> rehearse_on(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    bool ones) {
  return try_out(info, arguments, c10::DeviceType::CPU, ones,
                 [&](torch::jit::Stack* stack) {
                   if (info.generator >= 0) {
                     (*stack)[static_cast<size_t>(info.generator)] =
                         at::detail::createCPUGenerator();
                   }
                   info.op.redispatchBoxed(
                       c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
                 });
}

std::shared_ptr<const record::CallMetadata> try_on_ones(
    const OperatorInfo& info, std::span<const c10::IValue> arguments) {
  try {
    const NoWarnings no_warnings;  // those of the zeros are kept
    return rehearse_on(info, arguments, /*ones=*/true);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Whether the failure that is being handled may be due to the stand-ins.
bool may_be_the_datas_fault(const OperatorInfo& info) {
  if (info.may_refuse_data) return true;
  try {
    throw;
  } catch (const c10::LinAlgError&) {
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

bool is_dense(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return true;
  const at::Tensor& tensor = value.toTensor();
  return tensor.is_contiguous() && tensor.numel() > 0;
}

// For tensors that are empty or have gaps, what a foreach operator is composed
// of gives other strides than the CPU's own loops.
bool are_dense(std::span<const c10::IValue> arguments) {
  return std::ranges::all_of(arguments, [](const c10::IValue& value) {
    return value.isTensorList()
               ? std::ranges::all_of(value.toListRef(), is_dense)
               : is_dense(value);
  });
}

std::shared_ptr<const record::CallMetadata> rehearse_on_any(
    const OperatorInfo& info, std::span<const c10::IValue> arguments) {
  try {
    return rehearse_on(info, arguments, /*ones=*/false);
  } catch (const std::bad_alloc&) {
    return nullptr;
  } catch (const c10::Error&) {
    // Zeros are good indices, but bad divisors.
    if (auto metadata = try_on_ones(info, arguments)) return metadata;
    if (!may_be_the_datas_fault(info)) throw;
    return info.returns_new || info.has_out
               ? nullptr
               : std::make_shared<record::CallMetadata>();
  }
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

std::shared_ptr<const record::CallMetadata> infer_metadata(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device) {
  if (!info.is_meta_usable.load(std::memory_order_relaxed)) return nullptr;
  if (is_foreach(info.op) && !are_dense(arguments)) return nullptr;
  const CollectedWarnings warnings;
  try {
    const auto metadata = try_out(
        info, arguments, c10::DeviceType::Meta, /*ones=*/false,
        [&](torch::jit::Stack* stack) {
          info.meta->callBoxed(
              info.op, c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
        });
    return warnings.empty() ? metadata : nullptr;
  } catch (const c10::NotImplementedError&) {
    info.is_meta_usable.store(false, std::memory_order_relaxed);
    return nullptr;
  } catch (const c10::Error& error) {
    rethrow_mixed_devices(error, device);
    return nullptr;  // what is wrong, or whether, the operator itself tells
  } catch (const std::exception&) {
    return nullptr;  // a Meta kernel in C++ may call others, in Python
  }
}

std::shared_ptr<const record::CallMetadata> rehearse(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    bool* has_warned) {
  const at::DisableRecordFunctionGuard no_profiling;
  std::vector<c10::Warning> warnings;
  const auto give = [&] {
    *has_warned = !warnings.empty();
    for (const c10::Warning& warning : warnings) c10::warn(warning);
  };
  std::shared_ptr<const record::CallMetadata> metadata;
  try {
    CollectedWarnings collected;
    const auto take =
        c10::make_scope_exit([&] { warnings = collected.take(); });
    metadata = rehearse_on_any(info, arguments);
  } catch (...) {
    give();
    throw;
  }
  if (metadata != nullptr) give();
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
