// Carries out launch records on the device.
#pragma once

#include "backend/simulation/record/reader.h"
#include "openreg/kernel.h"

namespace torch_openreg::device {

// Runs the record's operator with the CPU's kernel. Outputs come to lie where
// the record says; with kKeepOutputs they are kept under a token, and the reply
// has the token and their metadata (see docs/launch-record.md). Failures of the
// kernel itself throw.
orError_t execute_record(orKernelContext* ctx, record::Reader& reader);

// Copies the outputs that were kept under the token, the record's only
// argument, to where the record says, and forgets them.
orError_t fetch_outputs(orKernelContext* ctx, record::Reader& reader);

// Forgets the outputs that were kept under the token, the only argument.
orError_t drop_outputs(orKernelContext* ctx);

}  // namespace torch_openreg::device
