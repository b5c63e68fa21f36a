// Registration of the engine.
#pragma once

#include "backend/export.h"

namespace torch_openreg {

// Registers the engine for every operator that has a CPU kernel and none of
// ours. Once, after all static registrations.
TORCH_OPENREG_API void register_catch_all();

}  // namespace torch_openreg
