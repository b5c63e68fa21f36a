// Operators that the backend has no kernel for: run by the CPU, on copies.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include "backend/fallback/fallback_log.h"

namespace torch_openreg {

// Copies the arguments to the host, calls the CPU's kernel, and copies results
// and changed arguments back. Waits for the device. A random operator draws
// from the device's generator. The use is counted with its reason; in strict
// mode it is an error, before anything is changed.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                  FallbackReason reason);

// The same for every operator that has no kernel; `m` is for all namespaces.
void register_fallback(torch::Library& m);

}  // namespace torch_openreg
