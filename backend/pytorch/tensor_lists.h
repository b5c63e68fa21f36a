// Lists of tensors among an operator's arguments.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <span>

namespace torch_openreg {

// Whether an argument is a list of optional tensors, as the indices of `index`.
bool takes_optional_tensors(const c10::FunctionSchema& schema);

// Replaces every list that the schema declares as one of optional tensors by a
// list that c10::IValue::isOptionalTensorList() knows. It compares the address
// of the type of the elements: TorchScript makes its own, or passes a list of
// tensors. Lists that are known already are left as they are. Thread-safe.
void unify_optional_tensors(const c10::FunctionSchema& schema,
                            std::span<c10::IValue> arguments);

// Whether the tensors in all lists are on more than one device.
bool spans_devices(std::span<const c10::IValue> arguments);

}  // namespace torch_openreg
