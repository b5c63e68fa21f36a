// Operators that the backend has no kernel for: run by the CPU, on copies.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace torch_openreg {

// Copies the arguments to the host, calls the CPU's kernel, and copies results
// and changed arguments back. Waits for the device. A random operator draws
// from the device's generator.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace torch_openreg
