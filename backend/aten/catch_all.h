// Registration of the engine.
#pragma once

#include <ATen/core/function_schema.h>

#include "backend/export.h"

namespace torch_openreg {

// Whether the operator returns a view of an argument.
bool is_view(const c10::FunctionSchema& schema);

// Registers the engine for every operator that has a CPU kernel and none of
// ours. Once, after all static registrations.
TORCH_OPENREG_API void register_catch_all();

}  // namespace torch_openreg
