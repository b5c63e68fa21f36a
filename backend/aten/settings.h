// The process-wide settings of the moment.
#pragma once

#include <cstdint>

#include "backend/export.h"

namespace torch_openreg {

// As executor/settings.h packs them.
uint64_t current_settings();

// To be called by the thread that has set the process's number of threads. From
// then on it keeps its own number, and all that never set one follow: PyTorch
// leaves threads that run already with the old one, those of autograd too,
// although a backward pass on the CPU is the caller's work. Thread-safe.
TORCH_OPENREG_API void note_number_of_threads();

}  // namespace torch_openreg
