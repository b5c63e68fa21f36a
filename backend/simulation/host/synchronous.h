// Runs operators whose results only a run can show.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <span>
#include <vector>

#include "backend/simulation/host/encode.h"
#include "backend/simulation/host/operator_info.h"
#include "backend/simulation/record/metadata_cache.h"

namespace torch_openreg {

// The results of such a run.
struct WaitedResults {
  // Of the returns that are no arguments, in order.
  std::vector<c10::IValue> values;
  // What they look like, and the arguments that were resized; null if a
  // composite is among them.
  std::shared_ptr<const record::CallMetadata> metadata;
  bool has_warned = false;
  // The operator threw; there is nothing else. Only of a call that is not
  // checked.
  bool has_failed = false;
};

// Runs the operator on the current stream and waits for it: the executor keeps
// the results and replies what they look like; then they are allocated, and
// fetched in the order of the stream. Resizes those of `arguments` that the
// operator has resized, and gives composites that it has written their new
// parts. Throws what the operator throws; if it is not known whether its
// arguments are good (`is_checked` is false), that is no failure of the device,
// and the result says so. Thread-safe.
WaitedResults run_and_wait(const OperatorInfo& info, Encoder& encoder,
                           std::span<const c10::IValue> arguments,
                           uint64_t settings, bool is_checked = true);

// Gives the arguments that a call resizes their new sizes.
void resize_outputs(const record::CallMetadata& metadata,
                    std::span<const c10::IValue> arguments);

}  // namespace torch_openreg
