#include "backend/simulation/host/catch_all.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKey.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/pytorch/cpp_kernel.h"
#include "backend/pytorch/schema.h"
#include "backend/pytorch/tensor_lists.h"
#include "backend/simulation/common/signatures.h"
#include "backend/simulation/host/engine.h"
#include "backend/simulation/host/operator_info.h"

namespace torch_openreg {

namespace {

constexpr auto kKey = c10::DispatchKey::PrivateUse1;

// Operators of new tensors that PyTorch makes empty and gives to another one as
// `out`. That one resizes them, so its calls would never be of a known kind; as
// a whole they are.
constexpr std::array<std::string_view, 21> kMadeByOut = {
    "aten::arange",
    "aten::complex",
    "aten::eye",
    "aten::frexp",
    "aten::kthvalue",
    "aten::linalg_lstsq",
    "aten::linspace",
    "aten::logical_and",
    "aten::logical_not",
    "aten::logical_or",
    "aten::logical_xor",
    "aten::logspace",
    "aten::logsumexp",
    "aten::median",
    "aten::mvlgamma",
    "aten::nan_to_num",
    "aten::nanmedian",
    "aten::polar",
    "aten::range",
    "aten::huber_loss_backward",
    "aten::smooth_l1_loss_backward"};

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

// The same for an operator on lists of tensors. One record has the tensors of
// one device; where there are more, PyTorch's composite kernel calls the
// operator of one tensor for each, as CUDA's does.
class ListKernel final : public c10::OperatorKernel {
 public:
  explicit ListKernel(const c10::OperatorHandle& op)
      : info_(op),
        one_by_one_(
            find_cpp_kernel(op, c10::DispatchKey::CompositeExplicitAutograd)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const size_t count = info_.written.size();
    const std::span<const c10::IValue> arguments(
        stack->data() + stack->size() - count, count);
    if (one_by_one_.has_value() && spans_devices(arguments)) {
      return one_by_one_->callBoxed(op, keys, stack);
    }
    c10::SmallVector<c10::IValue, 2> lists;
    for (size_t i = 0; i < count; ++i) {
      if (info_.written[i]) lists.push_back(arguments[i]);
    }
    run_operator(info_, stack);
    for (const c10::IValue& list : lists) bump_versions(list);
  }

 private:
  // PyTorch leaves it to such a kernel to tell autograd that the tensors have
  // changed, by their versions; the composite one does so by what it calls.
  static void bump_versions(const c10::IValue& list) {
    for (const c10::IValue& element : list.toListRef()) {
      element.toTensor().unsafeGetTensorImpl()->bump_version();
    }
  }

  const OperatorInfo info_;
  const std::optional<c10::KernelFunction> one_by_one_;
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

// The same for operators of several new tensors.
template <typename Results, typename... Types>
class UnboxedManyCatchAll final : public c10::OperatorKernel {
 public:
  explicit UnboxedManyCatchAll(const c10::OperatorHandle& op) : info_(op) {}
  bool is_suitable() const {
    return info_.is_carryable && !info_.is_synchronous;
  }
  Results operator()(Types... arguments) {
    const auto box = [&](torch::jit::Stack& stack) {
      torch::jit::push(stack, arguments...);
    };
    std::array<at::Tensor, kCount> results;
    Encoder encoder(info_);
    if (C10_LIKELY(encoder.encode_unboxed(arguments...))) {
      run_encoded_to(info_, encoder, box, results);
    } else {
      torch::jit::Stack stack;
      box(stack);
      run_operator(info_, &stack);
      for (size_t i = 0; i < kCount; ++i) {
        results[i] = std::move(stack[i]).toTensor();
      }
    }
    return std::apply([](auto&... each) { return Results(std::move(each)...); },
                      results);
  }

 private:
  static constexpr size_t kCount = std::tuple_size_v<Results>;

  const OperatorInfo info_;
};

// The same for operators that write their first argument, and return it.
template <typename... Types>
class UnboxedInPlace final : public c10::OperatorKernel {
 public:
  explicit UnboxedInPlace(const c10::OperatorHandle& op) : info_(op) {}
  bool is_suitable() const {
    return info_.is_carryable && !info_.is_synchronous &&
           !info_.takes_host_indices && info_.aliased.size() == 1 &&
           info_.aliased[0] == 0;
  }
  at::Tensor& operator()(at::Tensor& self, Types... arguments) {
    const auto box = [&](torch::jit::Stack& stack) {
      torch::jit::push(stack, self, arguments...);
    };
    Encoder encoder(info_);
    if (C10_LIKELY(encoder.encode_in_place(self, arguments...))) {
      run_encoded_in_place(info_, encoder, box);
      return self;
    }
    torch::jit::Stack stack;
    box(stack);
    run_operator(info_, &stack);
    return self;
  }

 private:
  const OperatorInfo info_;
};

template <typename... Types>
bool takes_in_place(const c10::FunctionSchema& schema) {
  const std::span<const c10::Argument> arguments = schema.arguments();
  return arguments.size() == sizeof...(Types) + 1 &&
         is_written(arguments.front()) && !arguments.front().is_out() &&
         SchemaType<const at::Tensor&>::is(*arguments.front().real_type()) &&
         takes<Types...>(arguments.subspan(1));
}

// Makes `kernel` one of this kind, if that suits the operator.
template <typename Kernel>
bool make_unboxed(const c10::OperatorHandle& op, c10::KernelFunction* kernel) {
  auto functor = std::make_unique<Kernel>(op);
  if (!functor->is_suitable()) return false;
  *kernel = c10::KernelFunction::makeFromUnboxedFunctor<
      /*AllowLegacyTypes=*/false, Kernel>(std::move(functor));
  return true;
}

// A kernel for an operator in place, if it has arguments that most have.
c10::KernelFunction make_in_place(const c10::OperatorHandle& op) {
  using Tensor = const at::Tensor&;
  using Scalar = const at::Scalar&;
  c10::KernelFunction kernel;
  const auto visit = [&]<typename... Types>() {
    return takes_in_place<Types...>(op.schema()) &&
           make_unboxed<UnboxedInPlace<Types...>>(op, &kernel);
  };
  static_cast<void>(visit.template operator()<>() ||
                    visit.template operator()<Scalar>() ||
                    visit.template operator()<Tensor>() ||
                    visit.template operator()<Tensor, Scalar>() ||
                    visit.template operator()<Tensor, Tensor>() ||
                    visit.template operator()<Tensor, Tensor, Scalar>());
  return kernel;
}

// A kernel for an operator of new tensors, likewise.
c10::KernelFunction make_of_new(const c10::OperatorHandle& op) {
  c10::KernelFunction kernel;
  visit_common_signature(op.schema(), [&]<typename... Types>() {
    return make_unboxed<UnboxedCatchAll<Types...>>(op, &kernel);
  });
  if (kernel.isValid()) return kernel;
  visit_common_signature_of_many(
      op.schema(), [&]<typename Results, typename... Types>() {
        return make_unboxed<UnboxedManyCatchAll<Results, Types...>>(op,
                                                                    &kernel);
      });
  return kernel;
}

c10::KernelFunction make_kernel(const c10::OperatorHandle& op) {
  c10::KernelFunction kernel = make_in_place(op);
  if (!kernel.isValid()) kernel = make_of_new(op);
  if (kernel.isValid()) return kernel;
  if (is_foreach(op)) {
    return c10::KernelFunction::makeFromBoxedFunctor(
        std::make_unique<ListKernel>(op));
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

// See kMadeByOut.
bool is_made_by_out(const c10::OperatorHandle& op) {
  return std::ranges::find(kMadeByOut, op.operator_name().name) !=
             kMadeByOut.end() &&
         !op.schema().is_mutable() &&
         op.hasKernelForDispatchKey(
             c10::DispatchKey::CompositeExplicitAutograd);
}

bool is_wanted(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(kKey)) return false;  // written by hand
  if (is_view(op.schema())) return false;
  // A device runs no Python.
  if (has_python_kernel(op, c10::DispatchKey::CPU)) return false;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         is_better_whole(op) || is_foreach(op) || is_taken_apart_in_place(op) ||
         is_made_by_out(op);
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
