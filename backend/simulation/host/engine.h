// Runs operators on the device: one call, one launch record.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <span>

#include "backend/simulation/host/encode.h"
#include "backend/simulation/host/operator_info.h"
#include "backend/simulation/record/metadata_cache.h"

namespace torch_openreg {

// Note [How an operator runs]
// The host writes the arguments into a record and finds out what the outputs
// will look like:
//   - from the cache, if the same kind of call was made before;
//   - else from a shape rule of ours, or from PyTorch's Meta kernel if there is
//     one in C++. Neither knows which dtypes have a kernel: the first call of a
//     signature is also tried out on the host, on small tensors;
//   - else, if the call is large and the stream idle, from the call itself: it
//     is run on the device and waited for;
//   - else from a rehearsal: the host runs the operator itself, on zeros. That
//     also raises the CPU's errors for bad arguments, at the call.
// Then it allocates the outputs, launches the record on the current stream and
// returns; the executor makes the CPU's kernel write to where the outputs are.
// Where data decides what the outputs look like, or a rehearsal can't tell, the
// operator is run on the device and waited for.
// Calls that a record can't carry go to the copying fallback.

// Takes the arguments from the stack and leaves the results. Thread-safe.
void run_operator(const OperatorInfo& info, torch::jit::Stack* stack);

// The same for an operator of one new tensor whose arguments were encoded: runs
// it and returns the tensor. `box` pushes the arguments; it is used only if the
// call is of a new kind. Thread-safe.
at::Tensor run_encoded(const OperatorInfo& info, Encoder& encoder,
                       c10::function_ref<void(torch::jit::Stack&)> box);

// The same for an operator of as many new tensors as there is room for.
void run_encoded_to(const OperatorInfo& info, Encoder& encoder,
                    c10::function_ref<void(torch::jit::Stack&)> box,
                    std::span<at::Tensor> results);

// The same for an operator whose only result is the tensor that it writes.
void run_encoded_in_place(const OperatorInfo& info, Encoder& encoder,
                          c10::function_ref<void(torch::jit::Stack&)> box);

// Launches an operator whose results are all arguments that it writes and that
// have their final size. The host never waits. Thread-safe.
void launch_prepared(const OperatorInfo& info,
                     std::span<c10::IValue> arguments);

struct EngineStatistics {
  uint64_t launches;     // without waiting
  uint64_t synchronous;  // run and waited for
  uint64_t inferred;     // of a new kind, known by a rule or a Meta kernel
  uint64_t rehearsed;    // of a new kind, tried out on the host in full
  record::CacheStatistics cache;
};
EngineStatistics engine_statistics();

}  // namespace torch_openreg
