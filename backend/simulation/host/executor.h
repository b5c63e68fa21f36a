// The kernels of the executor, from the host's side.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>

#include "backend/runtime/stream.h"

namespace torch_openreg {

enum class ExecutorKernel {
  kCopyTensor,
  kRunOperator,
  kFetchOutputs,
  kDropOutputs,
  kReportFailure,
  kFetchReply,
  kSetGenerator,
  kGetGenerator,
  kDropGenerator,
  kCount
};

// How long a kernel takes, beside waking a thread: much less, about as long, or
// more. On an idle stream the caller may run the shorter ones.
enum class Length : uint8_t { kCheap, kShort, kLong };

// Of a kernel that moves or computes so many bytes; a heavy one computes far
// more than it reads.
inline Length length_of(size_t bytes, bool is_heavy = false) {
  constexpr size_t kKib = 1024;
  if (bytes <= (is_heavy ? 8 : 64) * kKib) return Length::kCheap;
  return bytes <= (is_heavy ? 64 : 1024) * kKib ? Length::kShort
                                                : Length::kLong;
}

// Launches a kernel on `stream` with `size` bytes of arguments. Loads the
// executor on the stream's device first, once. A failure of the kernel that is
// known at once keeps the type of its exception; where it breaks the device, it
// is c10::AcceleratorError. Thread-safe.
void launch(ExecutorKernel kernel, const void* args, size_t size,
            const OpenRegStream& stream, Length length);

// The same where the stream's device is current.
void launch_here(ExecutorKernel kernel, const void* args, size_t size,
                 const OpenRegStream& stream, Length length);

// Whether the executor of `device`, which must be current, can run the operator
// with this id (see record::id_of). Loads the executor. Thread-safe.
bool has_operator(c10::DeviceIndex device, uint64_t id);

// The device was reset: the executor is loaded again when it is needed.
// Thread-safe.
void forget_executor(c10::DeviceIndex device);

// Runs a kernel in the stream's order and waits for it. Returns how many bytes
// of `reply` it has filled. Throws what the kernel has thrown.
size_t launch_and_wait(ExecutorKernel kernel, const void* args, size_t size,
                       const OpenRegStream& stream, Length length, void* reply,
                       size_t reply_capacity);

}  // namespace torch_openreg
