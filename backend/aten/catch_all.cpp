#include "backend/aten/catch_all.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKey.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/aten/cpp_kernel.h"
#include "backend/aten/engine.h"
#include "backend/aten/operator_info.h"
#include "backend/executor/schema.h"

namespace torch_openreg {

namespace {

constexpr auto kKey = c10::DispatchKey::PrivateUse1;

// Operators that PyTorch would take apart on the host, though their parts know
// the CPU's and CUDA's devices alone, or send to a backend by another name, but
// that are better carried whole: one record, and the CPU's own choice of
// algorithm.
constexpr std::array<std::string_view, 7> kCarriedWhole = {
    "aten::convolution", "aten::convolution_backward", "aten::_convolution",
    "aten::kaiser_window", "aten::mode",
    // These read their tensors' memory, wherever it is.
    "aten::_grid_sampler_2d_cpu_fallback",
    "aten::_grid_sampler_2d_cpu_fallback_backward"};

class CatchAll final : public c10::OperatorKernel {
 public:
  explicit CatchAll(const c10::OperatorHandle& op) : info_(op) {}
  void operator()(const c10::OperatorHandle& /*op*/,
                  c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
    run_operator(info_, stack);
  }

 private:
  const OperatorInfo info_;
};

// The same for an operator that writes lists of tensors. PyTorch leaves it to
// such a kernel to tell autograd that they have changed, by their versions; the
// CPU's does so by calling the operator of one tensor for each.
class ListWriter final : public c10::OperatorKernel {
 public:
  explicit ListWriter(const c10::OperatorHandle& op) : info_(op) {}
  void operator()(const c10::OperatorHandle& /*op*/,
                  c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
    const size_t first = stack->size() - info_.written.size();
    c10::SmallVector<c10::IValue, 2> lists;
    for (size_t i = 0; i < info_.written.size(); ++i) {
      if (info_.written[i]) lists.push_back((*stack)[first + i]);
    }
    run_operator(info_, stack);
    for (const c10::IValue& list : lists) {
      for (const c10::IValue& element : list.toListRef()) {
        element.toTensor().unsafeGetTensorImpl()->bump_version();
      }
    }
  }

 private:
  const OperatorInfo info_;
};

// The same for the arguments that most small operators have: the dispatcher
// calls it without boxing them.
template <typename... Types>
class UnboxedCatchAll final : public c10::OperatorKernel {
 public:
  explicit UnboxedCatchAll(const c10::OperatorHandle& op) : info_(op) {}
  // Whether the operator always gives one new tensor, which the host can make.
  bool is_suitable() const {
    return info_.is_carryable && info_.gives_one_tensor &&
           !info_.is_synchronous;
  }
  at::Tensor operator()(Types... arguments) {
    const auto box = [&](torch::jit::Stack& stack) {
      torch::jit::push(stack, arguments...);
    };
    Encoder encoder(info_);
    if (C10_LIKELY(encoder.encode_unboxed(arguments...))) {
      return run_encoded(info_, encoder, box);
    }
    torch::jit::Stack stack;
    box(stack);
    run_operator(info_, &stack);
    return std::move(stack.back()).toTensor();
  }

 private:
  const OperatorInfo info_;
};

c10::KernelFunction make_kernel(const c10::OperatorHandle& op) {
  c10::KernelFunction kernel;
  visit_common_signatures([&]<typename... Types>() {
    if (!takes<Types...>(op.schema())) return false;
    using Kernel = UnboxedCatchAll<Types...>;
    auto functor = std::make_unique<Kernel>(op);
    if (!functor->is_suitable()) return false;
    kernel = c10::KernelFunction::makeFromUnboxedFunctor<
        /*AllowLegacyTypes=*/false, Kernel>(std::move(functor));
    return true;
  });
  if (kernel.isValid()) return kernel;
  if (is_foreach(op) && op.schema().is_mutable()) {
    return c10::KernelFunction::makeFromBoxedFunctor(
        std::make_unique<ListWriter>(op));
  }
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<CatchAll>(op));
}

// An operator in place that PyTorch takes apart into others, which get the
// tensor twice: as an input and as `out`. They notice the difference, and some
// know the CPU and CUDA alone. Those that change no values but the tensor
// itself stay on the host, and so does the example of a stub.
bool is_taken_apart_in_place(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  const std::string& name = op.operator_name().name;
  return !arguments.empty() && is_written(arguments.front()) &&
         !arguments.front().is_out() && name.starts_with("aten::") &&
         name != "aten::abs_" && !op.hasTag(at::Tag::inplace_view) &&
         op.hasKernelForDispatchKey(
             c10::DispatchKey::CompositeExplicitAutograd);
}

bool is_wanted(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(kKey)) return false;  // written by hand
  if (is_view(op.schema())) return false;
  const std::string& name = op.operator_name().name;
  // A device runs no Python.
  if (has_python_kernel(op, c10::DispatchKey::CPU)) return false;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         std::ranges::find(kCarriedWhole, name) != kCarriedWhole.end() ||
         is_foreach(op) || is_taken_apart_in_place(op);
}

}  // namespace

void register_catch_all() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto& handles = *new std::vector<c10::RegistrationHandleRAII>;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || !is_wanted(*op)) continue;
    handles.push_back(dispatcher.registerImpl(name, kKey, make_kernel(*op),
                                              std::nullopt, nullptr,
                                              "OpenReg's catch-all"));
  }
}

}  // namespace torch_openreg
