// Where operators and their kernels are given to PyTorch's dispatcher.
#pragma once

#include <torch/library.h>

#include <source_location>
#include <string>

namespace torch_openreg {

// What the macros TORCH_LIBRARY_FRAGMENT and TORCH_LIBRARY_IMPL give, at the
// time of the call and not of an initialiser, whose order nobody knows. PyTorch
// names the caller in its messages. What is registered stays to the end of the
// process. Not thread-safe.

// A namespace of operators, to define some in.
torch::Library& define(
    std::string name_space,
    std::source_location caller = std::source_location::current());

// A namespace of operators, to give kernels for `key` to.
torch::Library& implement(
    std::string name_space, c10::DispatchKey key,
    std::source_location caller = std::source_location::current());

}  // namespace torch_openreg
