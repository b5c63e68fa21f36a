#include "backend/fallback/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/pytorch/cpp_kernel.h"
#include "backend/pytorch/schema.h"
#include "backend/pytorch/tensor_kinds.h"
#include "backend/pytorch/tensor_lists.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/generator.h"
#include "backend/seam.h"

namespace torch_openreg {

namespace {

// The arguments of the call, on top of the stack.
std::span<c10::IValue> arguments_of(const c10::OperatorHandle& op,
                                    torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  return {stack.data() + stack.size() - count, count};
}

template <typename Visit>
void for_each_tensor(std::span<const c10::IValue> arguments, Visit visit) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      visit(argument.toTensor());
    } else if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorVector()) visit(tensor);
    } else if (argument.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor :
           argument.toOptionalTensorVector()) {
        if (tensor.has_value()) visit(*tensor);
      }
    }
  }
}

// PyTorch's rule: all on one device, except single values on the host. None if
// no tensor is on a device.
std::optional<c10::Device> common_device(
    const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) {
  std::optional<c10::Device> device;
  std::optional<c10::Device> other;
  for_each_tensor(arguments, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const c10::Device its = tensor.device();
    if (its.is_privateuseone() && !device.has_value()) device = its;
    if (its.is_cpu() && tensor.dim() == 0) return;
    if (its.is_cpu() && may_take_host_indices(op) &&
        (isIntegralType(tensor.scalar_type(), /*includeBool=*/true))) {
      return;
    }
    if (device.has_value() ? its != *device : !its.is_privateuseone()) {
      other = its;
    }
  });
  if (!device.has_value()) return std::nullopt;
  if (other.has_value()) throw_mixed_devices(op, *device, *other);
  return device;
}

// The device of a factory is an argument.
std::optional<c10::Device> device_of(const c10::OperatorHandle& op,
                                     std::span<const c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isDevice() && argument.toDevice().is_privateuseone()) {
      return c10::Device(c10::DeviceType::PrivateUse1,
                         resolve_device(argument.toDevice().index()));
    }
  }
  return common_device(op, arguments);
}

bool is_generator(const c10::Argument& declared) {
  const c10::Type& type = *declared.type();
  const auto* const optional = type.castRaw<c10::OptionalType>();
  const c10::Type& inner =
      optional != nullptr ? *optional->getElementType() : type;
  return inner.kind() == c10::TypeKind::GeneratorType;
}

// `given`, or the default one of the device. PyTorch sends calls on tensors of
// the host to us as well if they have a generator of ours: they have no device.
at::Generator choose_generator(const c10::IValue& given,
                               std::optional<c10::Device> device) {
  if (given.isNone()) {
    return getDefaultOpenRegGenerator(device ? device->index() : -1);
  }
  const at::Generator generator = given.toGenerator();
  const c10::DeviceType found = generator.device().type();
  const c10::DeviceType expected =
      device ? device->type() : c10::DeviceType::CPU;
  TORCH_CHECK(found == expected, "Expected a '",
              c10::DeviceTypeName(expected, /*lower_case=*/true),
              "' device type for generator but found '",
              c10::DeviceTypeName(found, /*lower_case=*/true), "'");
  return generator;
}

// The CPU's kernels take only the CPU's generators: these draw in the place of
// ours.
class DrawnGenerators {
 public:
  void replace(const c10::OperatorHandle& op, std::span<c10::IValue> arguments,
               std::optional<c10::Device> device) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!is_generator(op.schema().arguments()[i])) continue;
      at::Generator ours = choose_generator(arguments[i], device);
      locks_.emplace_back(ours.mutex());
      at::Generator drawn = at::detail::createCPUGenerator();
      drawn.set_state(ours.get_state());
      arguments[i] = drawn;
      pairs_.emplace_back(std::move(ours), std::move(drawn));
    }
  }

  void give_back() {
    for (auto& [ours, drawn] : pairs_) ours.set_state(drawn.get_state());
  }

 private:
  std::vector<std::pair<at::Generator, at::Generator>> pairs_;
  // Nobody else draws from ours meanwhile. (No operator has two generators.)
  std::vector<std::unique_lock<std::mutex>> locks_;
};

uint64_t bytes_on_device(std::span<const c10::IValue> arguments) {
  uint64_t bytes = 0;
  for_each_tensor(arguments, [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.is_privateuseone() &&
        tensor.layout() == at::kStrided) {
      bytes += tensor.nbytes();
    }
  });
  return bytes;
}

bool has_composites(std::span<const c10::IValue> arguments) {
  bool found = false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor) {
    found = found || is_composite(tensor);
  });
  return found;
}

// The value with its tensors on another device.
c10::IValue moved(const c10::IValue& value, c10::Device device) {
  if (value.isTensor() && value.toTensor().defined()) {
    return value.toTensor().to(device);
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(moved(tensor, device).toTensor());
    }
    return list;
  }
  return value;
}

// PyTorch's fallback knows only the kernels of dense tensors. Here all
// arguments become the CPU's, and its own dispatch chooses.
void fall_back_with_composites(const c10::OperatorHandle& op,
                               std::span<c10::IValue> arguments,
                               c10::Device device, torch::jit::Stack* stack) {
  const c10::Device host(c10::DeviceType::CPU);
  const std::vector<c10::IValue> ours(arguments.begin(), arguments.end());
  for (c10::IValue& argument : arguments) {
    argument = argument.isDevice() ? c10::IValue(host) : moved(argument, host);
  }
  const std::vector<c10::IValue> theirs(arguments.begin(), arguments.end());
  op.callBoxed(stack);
  const c10::FunctionSchema& schema = op.schema();
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!is_written(schema.arguments()[i]) || !ours[i].isTensor()) continue;
    ours[i].toTensor().copy_(theirs[i].toTensor());
  }
  const auto& returns = schema.returns();
  const size_t first = stack->size() - returns.size();
  for (size_t i = 0; i < returns.size(); ++i) {
    c10::IValue& result = (*stack)[first + i];
    const int argument = aliased_argument(schema, returns[i]);
    result = argument >= 0 ? ours[static_cast<size_t>(argument)]
                           : moved(result, device);
  }
}

// A device runs no Python: what has a kernel of Python for the CPU has none for
// the device, and neither has what the CPU can't run itself.
void check_cpu_kernel(const c10::OperatorHandle& op) {
  const char* reason = nullptr;
  if (has_python_kernel(op, c10::DispatchKey::CPU)) {
    reason = "its kernel for the CPU is written in Python";
  } else if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
    reason = "there is none for the CPU either";
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      reason == nullptr, "Could not run '", op.operator_name(),
      "' with arguments from the 'openreg' backend. It has no kernel for this "
      "backend, and ",
      reason,
      ". Register one, for instance by torch.library.register_kernel(\"",
      op.operator_name(), "\", \"openreg\").");
}

// The global fallback: what has no kernel here.
void global_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!has_composites(arguments_of(op, *stack))) check_cpu_kernel(op);
  cpu_fallback(op, stack, reason_without_kernel());
}

}  // namespace

void register_fallback(torch::Library& m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&global_fallback>());
}

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                  FallbackReason reason) {
  const std::span<c10::IValue> arguments = arguments_of(op, *stack);
  unify_optional_tensors(op.schema(), arguments);
  const std::optional<c10::Device> device = device_of(op, arguments);
  note_fallback(c10::toString(op.operator_name()), reason,
                bytes_on_device(arguments));
  DrawnGenerators generators;
  generators.replace(op, arguments, device);
  const DeviceScope scope(device ? device->index() : -1);
  if (device.has_value() && has_composites(arguments)) {
    fall_back_with_composites(op, arguments, *device, stack);
  } else {
    at::native::cpu_fallback(op, stack);
  }
  generators.give_back();
}

}  // namespace torch_openreg
