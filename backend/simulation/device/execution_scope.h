// The state of a thread while it runs ATen for the device.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <optional>

#include "backend/pytorch/clean_dispatch.h"

namespace torch_openreg::device {

// A kernel may run on the thread of a worker or on the caller's, inside
// whatever modes the caller is in (autograd, functionalization, profiling,
// Python dispatch). Within this scope none of that is in force: operators go
// straight to the CPU's kernels, with the settings of the caller's process, its
// number of threads, treatment of denormals and mode of gradients. Not
// thread-safe: it is a thread's own.
class ExecutionScope {
 public:
  // `settings` is the word of simulation/common/settings.h. Throws
  // std::invalid_argument for a word that no host writes.
  explicit ExecutionScope(uint64_t settings);
  ~ExecutionScope();
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  const CleanDispatch dispatch_;
  // Only if somebody listens: to disable what nobody hears costs as much as a
  // small operator.
  std::optional<at::DisableRecordFunctionGuard> no_profiling_;
  // Of those that were changed.
  std::optional<bool> denormals_before_;
  std::optional<bool> gradients_before_;
};

}  // namespace torch_openreg::device
