// Operators on sparse, nested and quantized tensors.
#pragma once

#include <torch/library.h>

namespace torch_openreg {

// Note [Layouts]
// PyTorch has a dispatch key for each kind of tensor that is more than a
// storage and strides. Whatever has a kernel for the CPU's key gets one for
// ours:
//   - the CPU's own, on the host, if it only looks at how the tensor is made,
//     or makes it of parts, or takes it apart into operators on them: views,
//     constructors, sizes;
//   - else the catch-all: the record carries the parts, the executor puts them
//     together and calls the CPU's kernel. Data decides how many elements a
//     sparse result has, so the host waits for it.
// PyTorch decomposes operators that have no kernel for the CPU's key, as it
// does for the CPU.

// Registers all of them, in some milliseconds. To be called once, before there
// is a tensor on the device: register_on_first_use() does.
void register_layouts();

// Those that are written by hand.
void register_nested(torch::Library& m);
void register_quantized(torch::Library& m);

}  // namespace torch_openreg
