// The state of a thread while it runs ATen for the device.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace torch_openreg {

// A kernel may run on the thread of a worker or on the caller's, inside
// whatever modes the caller is in (autograd, autocast, functionalization,
// profiling, Python dispatch). Within this scope none of that is in force:
// operators go straight to the CPU's kernels. Not thread-safe: it is a thread's
// own.
class ExecutionScope {
 public:
  ExecutionScope() = default;
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  // What kernels need to make tensors of their own: without it, a call that has
  // no tensor among its arguments finds no kernel.
  static constexpr c10::DispatchKeySet kIncluded{
      c10::DispatchKey::BackendSelect};
  static constexpr c10::DispatchKeySet kExcluded =
      c10::default_excluded_set | c10::autograd_dispatch_keyset |
      c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);

  const c10::impl::ForceDispatchKeyGuard dispatch_{kIncluded, kExcluded};
  const at::DisableRecordFunctionGuard no_profiling_;
};

}  // namespace torch_openreg
