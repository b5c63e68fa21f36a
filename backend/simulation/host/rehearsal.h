// Operators that are tried out on the host, without the device and its data.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <span>

#include "backend/simulation/host/operator_info.h"
#include "backend/simulation/record/metadata_cache.h"

namespace torch_openreg {

// Runs the operator on the host, on zeros in the place of the data, or on ones
// if it refuses those. Throws what it throws for bad arguments. Null if only
// the data can tell whether the call is good, or if it is too large to be run
// twice. Gives the warnings that the operator gives, unless the result is null,
// and says whether there were any.
std::shared_ptr<const record::CallMetadata> rehearse(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    bool* has_warned);

// The same on small tensors: whether the CPU has a kernel for such a call, and
// which dtypes it gives. Null if it fails or warns, which says nothing of the
// call itself.
std::shared_ptr<const record::CallMetadata> rehearse_small(
    const OperatorInfo& info, std::span<const c10::IValue> arguments);

// Asks PyTorch's Meta kernel, which is quick, but may check other things than
// the operator itself. Null if there is none in C++, if it cannot tell, or if
// it warns, which is for the operator itself to do. Throws PyTorch's error for
// tensors on several devices, with the name of `device`.
std::shared_ptr<const record::CallMetadata> ask_meta(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device);

// The same about the small tensors of rehearse_small().
std::shared_ptr<const record::CallMetadata> ask_meta_small(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device);

}  // namespace torch_openreg
