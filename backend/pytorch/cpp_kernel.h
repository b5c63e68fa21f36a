// Kernels of PyTorch that the dispatcher does not offer.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace torch_openreg {

// Neither function is thread-safe against registrations for the same operator.

// The operator's newest kernel in C++ for `key`, none if it has none.
//
// Note [Meta kernels in C++]
// `import torch` registers Meta kernels in Python for most operators, in front
// of those in C++, and the dispatcher offers only the foremost. Python's cost
// a hundred times as much and need the interpreter's lock. The others are still
// in the operator's list of kernels, which has no public access; this looks
// into it. The package is built for one version of PyTorch and checks it at
// load.
std::optional<c10::KernelFunction> find_cpp_kernel(
    const c10::OperatorHandle& op, c10::DispatchKey key);

// Whether the kernel that the dispatcher would call for `key` is written in
// Python.
bool has_python_kernel(const c10::OperatorHandle& op, c10::DispatchKey key);

}  // namespace torch_openreg
