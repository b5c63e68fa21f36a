#include "backend/aten/catch_all.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKey.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/aten/engine.h"
#include "backend/aten/operator_info.h"

namespace torch_openreg {

namespace {

constexpr auto kKey = c10::DispatchKey::PrivateUse1;

// Operators that PyTorch would take apart on the host, or send to a backend by
// another name, but that are better carried whole: one record, and the CPU's
// own choice of algorithm.
constexpr std::array<std::string_view, 4> kCarriedWhole = {
    "aten::convolution", "aten::convolution_backward", "aten::_convolution",
    "aten::kaiser_window"};

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

bool is_wanted(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(kKey)) return false;  // written by hand
  if (is_view(op.schema())) return false;
  const std::string& name = op.operator_name().name;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         std::ranges::find(kCarriedWhole, name) != kCarriedWhole.end() ||
         name.starts_with("aten::_foreach_");
}

}  // namespace

bool is_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& value) {
    return value.alias_info() != nullptr && !value.alias_info()->isWrite();
  });
}

void register_catch_all() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto& handles = *new std::vector<c10::RegistrationHandleRAII>;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || !is_wanted(*op)) continue;
    handles.push_back(
        dispatcher.registerImpl(name, kKey,
                                c10::KernelFunction::makeFromBoxedFunctor(
                                    std::make_unique<CatchAll>(*op)),
                                std::nullopt, nullptr, "OpenReg's catch-all"));
  }
}

}  // namespace torch_openreg
