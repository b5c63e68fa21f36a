// The kernels of the executor, from the host's side.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

#include "backend/runtime/stream.h"

namespace torch_openreg {

enum class Kernel { kCopyTensor, kCount };

// Launches a kernel on `stream` with `size` bytes of arguments. `cheap` if it
// takes less time than waking a thread: on an idle stream the caller may then
// run it. Loads the executor on the stream's device first, once. Thread-safe.
void launch(Kernel kernel, const void* args, size_t size,
            const OpenRegStream& stream, bool cheap);

}  // namespace torch_openreg
