#include "backend/executor/direct_call.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/executor/schema.h"

namespace torch_openreg {

namespace {

template <typename Type>
decltype(auto) argument_as(const c10::IValue& value) {
  if constexpr (kKindOf<Type> == c10::TypeKind::TensorType) {
    return value.toTensor();  // a reference
  } else {
    return value.toScalar();
  }
}

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
                   argument_as<Types>(arguments[I])..., out);
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

bool returns_one_new_tensor(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return returns.size() == 1 && returns[0].alias_info() == nullptr &&
         returns[0].type()->kind() == c10::TypeKind::TensorType;
}

}  // namespace

std::unique_ptr<const DirectCall> DirectCall::find(
    const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  if (!returns_one_new_tensor(schema)) return nullptr;
  std::unique_ptr<const DirectCall> found;
  visit_common_signatures([&]<typename... Types>() {
    if (!takes<Types...>(schema)) return false;
    if (const auto out = find_out_variant(op)) {
      found = std::make_unique<OutCall<Types...>>(*out);
    }
    return true;
  });
  return found;
}

}  // namespace torch_openreg
