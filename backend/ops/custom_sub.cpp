// The form "fallback for one operator": run by the CPU, on copies, because we
// say so. A backend begins with many of these and ends with none. So that none
// is in the way of programs, this one stands on an operator of our own,
// torch.ops.openreg.custom_sub, and not on PyTorch's sub.Tensor, which runs on
// the device like all others.
#include <ATen/ops/sub.h>
#include <torch/library.h>

#include "backend/fallback/fallback.h"
#include "backend/ops/registration.h"
#include "backend/pytorch/library.h"

namespace torch_openreg {

namespace {

// Copies, waits, is counted, and is refused in strict mode.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  cpu_fallback(op, stack, FallbackReason::kByChoice);
}

// The CPU's kernel, which the fallback calls.
at::Tensor custom_sub(const at::Tensor& self, const at::Tensor& other) {
  return at::sub(self, other);
}

}  // namespace

void register_custom_sub() {
  define("openreg").def("custom_sub(Tensor self, Tensor other) -> Tensor");
  // One function does for operators of every signature: it is "boxed", its
  // arguments and results are on a stack. Without it, the catch-all would run
  // the CPU's kernel on the device, without copies.
  implement("openreg", c10::DispatchKey::PrivateUse1)
      .impl("custom_sub",
            torch::CppFunction::makeFromBoxedFunction<&fall_back>());
  implement("openreg", c10::DispatchKey::CPU)
      .impl("custom_sub", TORCH_FN(custom_sub));
}

}  // namespace torch_openreg
