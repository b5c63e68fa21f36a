// Checks the types of an operator's arguments.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

namespace torch_openreg::device {

// Throws std::invalid_argument unless the values are as many as the operator
// takes, of the types that its schema names, and numbers of enumerations
// (dtype, layout, memory format) are in their range. Kernels check no more than
// the first half of that, and look up the rest in tables.
void check_arguments(const c10::FunctionSchema& schema,
                     const torch::jit::Stack& arguments);

}  // namespace torch_openreg::device
