// The state of a thread while it runs ATen for the device.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace torch_openreg {

// A kernel may run on the thread of a worker or on the caller's, inside
// whatever modes the caller is in (autograd, functionalization, profiling,
// Python dispatch). Within this scope none of that is in force: operators go
// straight to the CPU's kernels. Not thread-safe: it is a thread's own.
class ExecutionScope {
 public:
  ExecutionScope() = default;
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  static constexpr c10::DispatchKeySet kNothing{};

  const c10::impl::ForceDispatchKeyGuard dispatch_{
      kNothing, c10::autograd_dispatch_keyset |
                    c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView)};
  const at::DisableRecordFunctionGuard no_profiling_;
};

}  // namespace torch_openreg
