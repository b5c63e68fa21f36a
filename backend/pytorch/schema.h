// Questions about an operator's schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <array>
#include <string_view>

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

// The argument that the return is, by their alias sets; -1 if it is new.
inline int aliased_argument(const c10::FunctionSchema& schema,
                            const c10::Argument& returned) {
  if (!is_written(returned)) return -1;
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_written(arguments[i]) && arguments[i].alias_info()->beforeSets() ==
                                        returned.alias_info()->beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// Indexing takes its indices from the host as well, as CUDA's does.
inline bool may_take_host_indices(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 4> kIndexing = {
      "aten::index", "aten::index_put_", "aten::_index_put_impl_",
      "aten::_unsafe_index"};
  return std::ranges::find(kIndexing, op.operator_name().name) !=
         kIndexing.end();
}

// Operators that PyTorch would take apart on the host, though their parts know
// the CPU's and CUDA's devices alone, or send to a backend by another name, but
// that are better carried whole: the CPU then chooses the algorithm.
inline bool is_better_whole(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 7> kNames = {
      "aten::convolution", "aten::convolution_backward", "aten::_convolution",
      "aten::kaiser_window", "aten::mode",
      // These read their tensors' memory, wherever it is.
      "aten::_grid_sampler_2d_cpu_fallback",
      "aten::_grid_sampler_2d_cpu_fallback_backward"};
  return std::ranges::find(kNames, op.operator_name().name) != kNames.end();
}

// Throws PyTorch's error for tensors on different devices.
[[noreturn]] inline void throw_mixed_devices(const c10::OperatorHandle& op,
                                             c10::Device a, c10::Device b) {
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at "
              "least two devices, ",
              a, " and ", b, "! (when calling ", op.operator_name(), ")");
}

}  // namespace torch_openreg
