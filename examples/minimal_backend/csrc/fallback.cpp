// All other operators, on the CPU. Full form: backend/fallback/fallback.cpp.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/native/CPUFallback.h>

#include <mutex>

#include "acme.h"

namespace torch_acme {

// The CPU's kernels take only the CPU's generators: one draws in place of ours.
// Views raise: a view of a copy would be no view.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& declared = op.schema().arguments();
  c10::IValue* const given = stack->data() + stack->size() - declared.size();
  c10::IValue* slot = nullptr;
  c10::DeviceIndex device = -1;
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].name() == "generator") slot = &given[i];
    if (given[i].isTensor() && given[i].toTensor().is_privateuseone()) {
      device = given[i].toTensor().device().index();
    }
  }
  if (slot == nullptr) return at::native::cpu_fallback(op, stack, true);
  at::Generator ours =
      slot->isNone() ? default_generator(device) : slot->toGenerator();
  const std::scoped_lock lock(ours.mutex());
  at::Generator drawn = at::detail::createCPUGenerator();
  drawn.set_state(ours.get_state());
  *slot = drawn;
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  ours.set_state(drawn.get_state());
}

}  // namespace torch_acme
