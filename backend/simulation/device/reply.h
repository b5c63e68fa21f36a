// The reply of a synchronous run to the host: the metadata of its results, and
// the arguments that it has changed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/simulation/common/composites.h"
#include "backend/simulation/record/reader.h"
#include "openreg/kernel.h"

namespace torch_openreg::device {

// Plain tensors.
using TensorVector = c10::SmallVector<at::Tensor, 4>;

// A tensor that the operator has resized, given other strides or put together
// anew, and which argument it is.
struct Resized {
  int64_t argument;
  at::Tensor tensor;
};

// The tensors among the arguments that an operator writes, as they were before
// it. Not thread-safe.
class WrittenArguments {
 public:
  WrittenArguments(const c10::FunctionSchema& schema,
                   const torch::jit::Stack& arguments);

  // Those that are not as they were.
  std::vector<Resized> resized() const;

 private:
  struct Before {
    Resized now;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    uint8_t flags;               // what it leaves undone
    std::optional<Parts> parts;  // of a composite
  };
  std::vector<Before> before_;
};

// Keeps the new results, and what has been resized, for fetch_outputs, and
// describes them to the host. The reply is a record itself: its name is the
// operator's, its settings the token, its arguments the results; then, for each
// resized argument, its number and what it is like now; then, for each warning,
// its kind, text, file and line.
orError_t reply_with_results(orKernelContext* ctx, const record::Reader& reader,
                             std::span<const c10::IValue> results,
                             const std::vector<Resized>& resized,
                             const std::vector<c10::Warning>& warnings);

// The same for an operator that has thrown after it has warned: the only result
// is the text of describe_failure().
orError_t reply_with_failure(orKernelContext* ctx, const record::Reader& reader,
                             const std::string& failure,
                             const std::vector<c10::Warning>& warnings);

// The tensors that were kept under a token, which is forgotten. Throws
// std::invalid_argument if there are none. Thread-safe.
TensorVector take_kept(uint64_t token);

// Gives the reply that was too long, and forgets it. The token is the only
// argument.
orError_t fetch_reply(orKernelContext* ctx);

}  // namespace torch_openreg::device
