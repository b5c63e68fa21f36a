// Operators straight to the kernels of their tensors' device.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace torch_openreg {

// Within this scope no mode of the thread is in force: no autograd, no
// autocast, no functionalization, no Python dispatch. What is left is the
// choice of a device for operators without tensors. A thread's own.
class CleanDispatch {
 public:
  CleanDispatch() = default;
  CleanDispatch(const CleanDispatch&) = delete;
  CleanDispatch& operator=(const CleanDispatch&) = delete;

 private:
  const c10::impl::ForceDispatchKeyGuard guard_{
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::default_excluded_set | c10::autograd_dispatch_keyset |
          c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView)};
};

}  // namespace torch_openreg
