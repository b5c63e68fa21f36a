// What an operator's outputs will look like, found without running it.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <span>

#include "backend/aten/operator_info.h"
#include "backend/record/metadata_cache.h"

namespace torch_openreg {

// Asks PyTorch's Meta kernel. Null if there is none in C++ or it cannot tell.
// Throws what that throws for bad arguments: PyTorch's own errors, with the
// name of `device`.
std::shared_ptr<const record::CallMetadata> infer_metadata(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device);

// The same by PyTorch's Meta kernel in Python, which takes the interpreter's
// lock and a hundred times as long. Null if there is none or it fails.
std::shared_ptr<const record::CallMetadata> guess_metadata(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device);

// The words for an output like `tensor`.
record::OutputShape output_shape(c10::ScalarType dtype, at::IntArrayRef sizes,
                                 at::IntArrayRef strides);

}  // namespace torch_openreg
