// The kernels of the executor, from the host's side.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>

#include "backend/runtime/stream.h"

namespace torch_openreg {

enum class Kernel {
  kCopyTensor,
  kRunOperator,
  kFetchOutputs,
  kDropOutputs,
  kSetGenerator,
  kGetGenerator,
  kDropGenerator,
  kCount
};

// What moves or computes so many bytes is done before a thread would have
// woken.
inline constexpr size_t kCheapBytes = size_t{64} << 10;

// Launches a kernel on `stream` with `size` bytes of arguments. `cheap` if it
// takes less time than waking a thread: on an idle stream the caller may then
// run it. Loads the executor on the stream's device first, once. A failure of
// the kernel that is known at once keeps the type of its exception.
// Thread-safe.
void launch(Kernel kernel, const void* args, size_t size,
            const OpenRegStream& stream, bool cheap);

// The same where the stream's device is current.
void launch_here(Kernel kernel, const void* args, size_t size,
                 const OpenRegStream& stream, bool cheap);

// Whether the executor of `device`, which must be current, can run the operator
// with this id (see record::id_of). Loads the executor. Thread-safe.
bool has_operator(c10::DeviceIndex device, uint64_t id);

// The device was reset: the executor is loaded again when it is needed.
// Thread-safe.
void forget_executor(c10::DeviceIndex device);

// Runs a kernel in the stream's order and waits for it. Returns how many bytes
// of `reply` it has filled.
size_t launch_and_wait(Kernel kernel, const void* args, size_t size,
                       const OpenRegStream& stream, void* reply,
                       size_t reply_capacity);

}  // namespace torch_openreg
