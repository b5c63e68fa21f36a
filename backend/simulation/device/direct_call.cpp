#include "backend/simulation/device/direct_call.h"

#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/simulation/common/signatures.h"

namespace torch_openreg::device {

namespace {

using Numbers = c10::SmallVector<int64_t, 6>;

Numbers numbers_in(const c10::IValue& list) {
  Numbers numbers;
  for (const c10::IValue& element : list.toListRef()) {
    numbers.push_back(element.toInt());
  }
  return numbers;
}

// An argument as the kernel takes it, from the stack. What it refers to lives
// as long as the call.
template <typename Type>
struct Unboxed {
  explicit Unboxed(const c10::IValue& value) : held(value.to<Type>()) {}
  Type get() const { return held; }
  const Type held;
};
template <>
struct Unboxed<const at::Tensor&> {
  explicit Unboxed(const c10::IValue& value) : held(value.toTensor()) {}
  const at::Tensor& get() const { return held; }
  const at::Tensor& held;
};
template <>
struct Unboxed<const at::Scalar&> {
  explicit Unboxed(const c10::IValue& value) : held(value.toScalar()) {}
  const at::Scalar& get() const { return held; }
  const at::Scalar held;
};
template <>
struct Unboxed<std::string_view> {
  explicit Unboxed(const c10::IValue& value) : held(value.toStringView()) {}
  std::string_view get() const { return held; }
  const std::string_view held;
};
template <>
struct Unboxed<const at::ITensorListRef&> {
  explicit Unboxed(const c10::IValue& value)
      : list(value.toTensorList()), held(list) {}
  const at::ITensorListRef& get() const { return held; }
  const c10::List<at::Tensor> list;
  const at::ITensorListRef held;
};
template <>
struct Unboxed<const std::optional<at::Tensor>&> {
  explicit Unboxed(const c10::IValue& value) {
    if (!value.isNone()) held = value.toTensor();
  }
  const std::optional<at::Tensor>& get() const { return held; }
  std::optional<at::Tensor> held;
};
template <>
struct Unboxed<const std::optional<at::Scalar>&> {
  explicit Unboxed(const c10::IValue& value) {
    if (!value.isNone()) held = value.toScalar();
  }
  const std::optional<at::Scalar>& get() const { return held; }
  std::optional<at::Scalar> held;
};
template <>
struct Unboxed<at::IntArrayRef> {
  explicit Unboxed(const c10::IValue& value) : held(numbers_in(value)) {}
  at::IntArrayRef get() const { return held; }
  const Numbers held;
};
template <>
struct Unboxed<c10::SymIntArrayRef> {
  explicit Unboxed(const c10::IValue& value) {
    for (const c10::IValue& element : value.toListRef()) {
      held.emplace_back(element.toInt());
    }
  }
  c10::SymIntArrayRef get() const { return held; }
  c10::SmallVector<c10::SymInt, 6> held;
};
template <>
struct Unboxed<at::OptionalIntArrayRef> {
  explicit Unboxed(const c10::IValue& value) {
    if (!value.isNone()) held = numbers_in(value);
  }
  at::OptionalIntArrayRef get() const {
    return held.has_value() ? at::OptionalIntArrayRef(*held) : std::nullopt;
  }
  std::optional<Numbers> held;
};

template <typename... Types>
class OutCall final : public DirectCall {
 public:
  using Signature = at::Tensor&(Types..., at::Tensor&);

  explicit OutCall(const c10::OperatorHandle& out)
      : op_(out.typed<Signature>()) {}

  void call(const torch::jit::Stack& arguments,
            at::Tensor& out) const override {
    call_with(arguments, out, std::index_sequence_for<Types...>());
  }

 private:
  template <size_t... I>
  void call_with(const torch::jit::Stack& arguments, at::Tensor& out,
                 std::index_sequence<I...> /*indices*/) const {
    op_.redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU),
                   Unboxed<Types>(arguments[I]).get()..., out);
  }

  const c10::TypedOperatorHandle<Signature> op_;
};

template <typename Results, typename... Types>
class TupleCall final : public ResultCall {
 public:
  using Signature = Results(Types...);

  explicit TupleCall(const c10::OperatorHandle& op)
      : op_(op.typed<Signature>()) {}

  TensorVector call(const torch::jit::Stack& arguments) const override {
    TensorVector defined;
    std::apply(
        [&](auto&&... results) {
          const auto add = [&](at::Tensor& result) {
            if (result.defined()) defined.push_back(std::move(result));
          };
          (add(results), ...);
        },
        call_with(arguments, std::index_sequence_for<Types...>()));
    return defined;
  }

 private:
  template <size_t... I>
  Results call_with(const torch::jit::Stack& arguments,
                    std::index_sequence<I...> /*indices*/) const {
    return op_.redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU),
                          Unboxed<Types>(arguments[I]).get()...);
  }

  const c10::TypedOperatorHandle<Signature> op_;
};

// The overloads of an operator.
std::vector<c10::OperatorName> overloads_of(const std::string& name) {
  std::vector<c10::OperatorName> overloads;
  for (const auto& candidate : c10::Dispatcher::singleton().getAllOpNames()) {
    if (candidate.name == name) overloads.push_back(candidate);
  }
  return overloads;
}

// Whether `out` takes the same arguments, and then a tensor that it writes.
bool is_out_variant(const c10::FunctionSchema& op,
                    const c10::FunctionSchema& out) {
  const auto& given = op.arguments();
  const auto& taken = out.arguments();
  if (taken.size() != given.size() + 1 || out.returns().size() != 1) {
    return false;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].name() != taken[i].name() ||
        *given[i].type() != *taken[i].type() || is_written(taken[i])) {
      return false;
    }
  }
  return taken.back().type()->kind() == c10::TypeKind::TensorType &&
         is_written(taken.back());
}

std::optional<c10::OperatorHandle> find_out_variant(
    const c10::OperatorHandle& op) {
  for (const c10::OperatorName& name : overloads_of(op.operator_name().name)) {
    const auto out = c10::Dispatcher::singleton().findSchema(name);
    if (out.has_value() && is_out_variant(op.schema(), out->schema()) &&
        out->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<const DirectCall> DirectCall::find(
    const c10::OperatorHandle& op) {
  if (!gives_new_tensors(op.schema(), 1)) return nullptr;
  std::unique_ptr<const DirectCall> found;
  visit_common_signature(op.schema(), [&]<typename... Types>() {
    if (const auto out = find_out_variant(op)) {
      found = std::make_unique<OutCall<Types...>>(*out);
    }
    return true;
  });
  return found;
}

std::unique_ptr<const ResultCall> ResultCall::find(
    const c10::OperatorHandle& op) {
  std::unique_ptr<const ResultCall> found;
  visit_common_signature_of_many(
      op.schema(), [&]<typename Results, typename... Types>() {
        found = std::make_unique<TupleCall<Results, Types...>>(op);
        return true;
      });
  return found;
}

}  // namespace torch_openreg::device
