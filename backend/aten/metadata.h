// What an operator's outputs will look like, found without the device.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <span>

#include "backend/aten/operator_info.h"
#include "backend/record/metadata_cache.h"

namespace torch_openreg {

// Asks PyTorch's Meta kernel, which is quick, but checks other things than the
// operator itself. Null if there is none in C++, if it cannot tell, or if it
// warns, which is for the operator itself to do. Throws PyTorch's error for
// tensors on several devices, with the name of `device`.
std::shared_ptr<const record::CallMetadata> infer_metadata(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device);

// Runs the operator on the host, on zeros in the place of the data, or on ones
// if it refuses those. Throws what it throws for bad arguments. Null if only
// the data can tell whether the call is good, or if it is too large to be run
// twice. Gives the warnings that the operator gives, unless the result is null,
// and says whether there were any.
std::shared_ptr<const record::CallMetadata> rehearse(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    bool* has_warned);

// The words for an output like this; `flags` as lazy_flags has them.
record::OutputShape output_shape(c10::ScalarType dtype, at::IntArrayRef sizes,
                                 at::IntArrayRef strides, uint8_t flags = 0);

// Whether the operator gives the same if its outputs have their sizes before it
// runs, unless they share memory with inputs. One in place reads the old values
// too; some treat an output without elements as one that the caller has left to
// them; and some leave it conjugated lazily.
bool can_resize_first(const OperatorInfo& info,
                      const record::CallMetadata& metadata);

// Whether elements of a tensor that is written share a place. Operators refuse
// that, and Meta kernels don't look.
bool writes_overlapping(const OperatorInfo& info,
                        std::span<const c10::IValue> arguments);

// Whether the call ends with a result, or an `out`, whose strides mean nothing,
// since it has no elements, or one. Meta kernels know nothing of what operators
// give for them.
bool has_idle_strides(const OperatorInfo& info,
                      const record::CallMetadata& metadata,
                      std::span<const c10::IValue> arguments);

}  // namespace torch_openreg
