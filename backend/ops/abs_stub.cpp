// The form STUB. Many of PyTorch's operators are one piece of code for all
// devices: it checks the arguments, promotes types, makes or resizes the output
// and describes both in a TensorIterator. Only the loop over the elements is
// the device's, and a DispatchStub leads to it. A vendor who registers the stub
// writes that loop and nothing else.
//
// Note [Who calls a stub]
// PyTorch reaches abs_stub from at::native::abs_out, the kernel that it has for
// abs.out on the CPU. For PrivateUse1 that has to be said as well, below, or
// else the catch-all would take abs.out. The other forms, abs and abs_, call
// abs.out.
#include <ATen/TensorIterator.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_native.h>
#include <torch/library.h>

#include <array>

#include "backend/ops/registration.h"
#include "backend/seam.h"

namespace torch_openreg {

namespace {

// The operands lie on the device, the output has its size: all that is left is
// a launch, on the current stream. A vendor would launch a kernel of the chip;
// ours is the CPU's loop, which the device finds behind abs.out.
void abs_kernel(at::TensorIteratorBase& iter) {
  static const auto& abs_out = *new DeviceOperator("aten::abs", "out");
  std::array<c10::IValue, 2> arguments = {iter.input(0), iter.output(0)};
  abs_out.launch(arguments);
}

}  // namespace

// Does the same as the macro REGISTER_PRIVATEUSE1_DISPATCH.
void register_abs_stub(torch::Library& m) {
  at::native::abs_stub.set_privateuse1_dispatch_ptr(&abs_kernel);
  m.impl("abs.out", TORCH_FN(at::native::abs_out));
}

}  // namespace torch_openreg
