// The seam: all that the parts which a vendor keeps ask of whatever runs
// operators on the device. simulation/ answers with the CPU's kernels; bare/
// answers for a device that has no kernels yet, and is where a vendor's own
// launches begin.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/export.h"
#include "backend/fallback/fallback_log.h"
#include "backend/runtime/stream.h"

namespace torch_openreg {

// --- Registration ---

// Registers a kernel for every operator that the device can run and that has
// none by now. Called once, after the kernels written by hand and before the
// fallback.
void register_device_kernels();

// The same for sparse, nested and quantized tensors, at the first use of a
// device.
void register_device_layouts();

// Why an operator without a kernel has none, for the report of the fallback.
FallbackReason reason_without_kernel();

// --- Operators ---

// An operator of PyTorch that a kernel written by hand runs as a whole.
// Immutable. Thread-safe.
class DeviceOperator {
 public:
  // Throws c10::Error if PyTorch has no such operator.
  DeviceOperator(const char* name, const char* overload);
  ~DeviceOperator();
  DeviceOperator(const DeviceOperator&) = delete;
  DeviceOperator& operator=(const DeviceOperator&) = delete;

  // Takes the arguments from the stack and leaves the results.
  void run(torch::jit::Stack* stack) const;

  // The same for an operator that only writes some of its arguments, which have
  // their final size. The simulation does not wait.
  void launch(std::span<c10::IValue> arguments) const;

 private:
  struct Impl;
  const std::unique_ptr<const Impl> impl_;
};

// --- Copies ---

// Copies values between tensors of the same sizes on one device, any strides
// and dtypes, in the order of the current stream. The caller has made the
// device current.
void copy_on_device(const at::Tensor& dst, const at::Tensor& src);

// Throws PyTorch's error if no copy from the dtype of `src` to that of `dst`
// exists.
void check_convertible(const at::Tensor& dst, const at::Tensor& src);

// --- Random numbers ---
//
// A generator of the device has a number. The device draws from a source of
// that number; the host's object sets it and asks for it.

void seed_device_generator(uint64_t id, uint64_t seed,
                           const OpenRegStream& stream);
void set_device_generator(uint64_t id, std::span<const std::byte> state,
                          const OpenRegStream& stream);
// Waits. `state` has the size of a state.
void get_device_generator(uint64_t id, std::span<std::byte> state,
                          const OpenRegStream& stream);
void drop_device_generator(uint64_t id, const OpenRegStream& stream);

// --- Life of a device ---

// The device was reset: what was loaded onto it is gone.
void forget_device_kernels(c10::DeviceIndex device);

// --- Settings and numbers ---

// A setting of PyTorch's that kernels read has changed. Thread-safe.
TORCH_OPENREG_API void refresh_settings();

// The program has asked for so many threads. Thread-safe.
TORCH_OPENREG_API void note_thread_count(int threads);

// How operators were run. All zero where nobody counts.
struct LaunchStatistics {
  uint64_t launches;     // without waiting
  uint64_t synchronous;  // run and waited for
  uint64_t inferred;     // of a new kind, known by a rule or a Meta kernel
  uint64_t rehearsed;    // of a new kind, tried out on the host in full
  uint64_t cache_hits;
  uint64_t cache_misses;
  uint64_t cache_evictions;
  uint64_t cache_entries;
};
TORCH_OPENREG_API LaunchStatistics launch_statistics();

// For tests: compares what is known of results with what operators give.
TORCH_OPENREG_API void set_verification(bool on);

}  // namespace torch_openreg
