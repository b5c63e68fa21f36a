// How the metadata of a call is written down, and what it says of the call.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <memory>
#include <span>

#include "backend/simulation/host/operator_info.h"
#include "backend/simulation/record/metadata_cache.h"

namespace torch_openreg {

// The words for an output like this; `flags` as lazy_flags has them.
record::OutputShape output_shape(c10::ScalarType dtype, at::IntArrayRef sizes,
                                 at::IntArrayRef strides, uint8_t flags = 0);

// What a kernel has given and resized: `before` are the arguments as the caller
// sees them, `after` those that the kernel had, or nothing if resizes don't
// matter. Null if a result is more than a storage and strides.
std::shared_ptr<const record::CallMetadata> read_metadata(
    const OperatorInfo& info, std::span<const c10::IValue> before,
    std::span<const c10::IValue> after, const torch::jit::Stack& results);

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

// Whether a tensor that is written has its storage in common with another
// argument: some operators refuse that, depending on where in it they are.
bool writes_shared(const OperatorInfo& info,
                   std::span<const c10::IValue> arguments);

// Whether the call ends with a result, or an `out`, whose strides mean nothing,
// since it has no elements, or one. Some Meta kernels know nothing of what
// operators give for them.
bool has_idle_strides(const OperatorInfo& info,
                      const record::CallMetadata& metadata,
                      std::span<const c10::IValue> arguments);

}  // namespace torch_openreg
