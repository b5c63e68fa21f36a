// The process-wide settings of the moment.
#pragma once

#include <cstdint>

#include "backend/export.h"

namespace torch_openreg {

// As executor/settings.h packs them. Thread-safe.
uint64_t current_settings();

// Tells that the program has asked for so many threads. PyTorch keeps the
// number by thread, and a thread that runs already does not hear of it. Those
// of autograd run for ever, and nobody can tell them: operators that a backward
// pass calls take this number instead. Thread-safe.
TORCH_OPENREG_API void note_thread_count(int threads);

}  // namespace torch_openreg
