#include "backend/simulation/host/layouts/registration.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKey.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/pytorch/cpp_kernel.h"
#include "backend/runtime/functions.h"
#include "backend/simulation/common/signatures.h"
#include "backend/simulation/host/engine.h"
#include "backend/simulation/host/operator_info.h"

namespace torch_openreg {

namespace {

// One kind of tensor: our key, and the CPU's.
struct Family {
  c10::DispatchKey ours;
  c10::DispatchKey cpu;
};

constexpr std::array<Family, 4> kFamilies = {{
    {c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCPU},
    {c10::DispatchKey::SparseCsrPrivateUse1, c10::DispatchKey::SparseCsrCPU},
    {c10::DispatchKey::NestedTensorPrivateUse1,
     c10::DispatchKey::NestedTensorCPU},
    {c10::DispatchKey::QuantizedPrivateUse1, c10::DispatchKey::QuantizedCPU},
}};

// Operators whose kernels for the CPU serve every device: they touch no data,
// or do it by other operators. (PyTorch uses the same functions for its other
// devices.)
constexpr std::array<std::string_view, 42> kOnHost = {
    // New tensors, and copies of them.
    "aten::_empty_affine_quantized",
    "aten::_empty_per_channel_affine_quantized",
    "aten::_sparse_coo_tensor_with_dims",
    "aten::_sparse_coo_tensor_with_dims_and_tensors",
    "aten::_pin_memory",
    "aten::_to_copy",
    "aten::clone",
    "aten::copy_",
    "aten::copy_sparse_to_sparse_",
    "aten::empty",
    "aten::empty_like",
    "aten::empty_quantized",
    "aten::empty_strided",
    "aten::select_copy",
    "aten::zero_",
    "aten::zeros",
    // What a tensor is like.
    "aten::_dimI",
    "aten::_dimV",
    "aten::_nested_tensor_size",
    "aten::_nested_tensor_storage_offsets",
    "aten::_nested_tensor_strides",
    "aten::_nnz",
    "aten::dense_dim",
    "aten::is_coalesced",
    "aten::is_pinned",
    "aten::is_same_size",
    "aten::q_per_channel_axis",
    "aten::q_per_channel_scales",
    "aten::q_per_channel_zero_points",
    "aten::q_scale",
    "aten::q_zero_point",
    "aten::qscheme",
    "aten::sparse_dim",
    // Changes of it.
    "aten::_coalesced_",
    "aten::resize_",
    "aten::resize_as_sparse_",
    "aten::set_",
    "aten::sparse_resize_",
    "aten::sparse_resize_and_clear_",
    // Random numbers, of the device's generator.
    "aten::native_dropout",
    "aten::native_dropout_backward",
    "aten::normal_",
};

bool runs_on_host(const c10::OperatorHandle& op) {
  return is_view(op.schema()) ||
         std::ranges::find(kOnHost, op.operator_name().name) != kOnHost.end();
}

// Where the operator makes tensors: the device that it is given, or that of its
// first tensor of ours; -1 if it has neither.
c10::DeviceIndex device_of(std::span<const c10::IValue> arguments) {
  for (const c10::IValue& value : arguments) {
    if (value.isDevice() && value.toDevice().is_privateuseone()) {
      return value.toDevice().index();
    }
  }
  for (const c10::IValue& value : arguments) {
    if (value.isTensor() && value.toTensor().defined() &&
        value.toTensor().is_privateuseone()) {
      return value.toTensor().device().index();
    }
  }
  return -1;
}

// A kernel of the CPU that serves every device. It knows of one CPU only, so
// the device is made current. Thread-safe.
class HostKernel final : public c10::OperatorKernel {
 public:
  explicit HostKernel(c10::KernelFunction kernel)
      : kernel_(std::move(kernel)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const size_t count = op.schema().arguments().size();
    const DeviceScope scope(
        device_of({stack->data() + stack->size() - count, count}));
    kernel_.callBoxed(op, keys, stack);
  }

 private:
  const c10::KernelFunction kernel_;
};

// The engine, for an operator that most programs never call on such a tensor:
// what it needs to know is found at the first call. Thread-safe.
class LayoutKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                  torch::jit::Stack* stack) {
    std::call_once(once_, [&] { info_.emplace(op); });
    run_operator(*info_, stack);
  }

 private:
  std::once_flag once_;
  std::optional<OperatorInfo> info_;
};

std::optional<c10::KernelFunction> kernel_for(const c10::OperatorHandle& op,
                                              const Family& family) {
  if (op.hasKernelForDispatchKey(family.ours)) return std::nullopt;
  if (!op.hasKernelForDispatchKey(family.cpu)) return std::nullopt;
  if (runs_on_host(op)) {
    auto kernel = find_cpp_kernel(op, family.cpu);
    if (!kernel.has_value()) return std::nullopt;
    return c10::KernelFunction::makeFromBoxedFunctor(
        std::make_unique<HostKernel>(*std::move(kernel)));
  }
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<LayoutKernel>());
}

}  // namespace

void register_layouts() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto& handles = *new std::vector<c10::RegistrationHandleRAII>;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value()) continue;
    for (const Family& family : kFamilies) {
      auto kernel = kernel_for(*op, family);
      if (!kernel.has_value()) continue;
      handles.push_back(
          dispatcher.registerImpl(name, family.ours, *std::move(kernel),
                                  std::nullopt, nullptr, "OpenReg's layouts"));
    }
  }
}

}  // namespace torch_openreg
