// The process-wide settings of the moment.
#pragma once

#include <cstdint>

#include "backend/export.h"

namespace torch_openreg {

// As executor/settings.h packs them. Those that decide metadata, and those of
// the thread, are read each time; the others as they were at the last
// refresh_settings(). Thread-safe.
uint64_t current_settings();

// Reads all of them. To be called when one has changed; Python's setters do. A
// C++ program that changes PyTorch's context by itself need not: the next new
// kind of call does. Thread-safe.
TORCH_OPENREG_API void refresh_settings();

// Tells that the program has asked for so many threads. PyTorch keeps the
// number by thread, and a thread that runs already does not hear of it. Those
// of autograd run for ever, and nobody can tell them: operators that a backward
// pass calls take this number instead. Thread-safe.
TORCH_OPENREG_API void note_thread_count(int threads);

}  // namespace torch_openreg
