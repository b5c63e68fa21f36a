// Operators straight to the kernels of their tensors' device.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

namespace torch_openreg {

// Within this scope no mode of the thread is in force: no autograd, no
// autocast, no functionalization, no Python dispatch. What is left is the
// choice of a device for operators without tensors. A thread's own.
class CleanDispatch {
 public:
  CleanDispatch() {
    const auto now = c10::impl::tls_local_dispatch_key_set();
    const bool is_clean = (now.included_ - now.excluded_) == kIncluded &&
                          now.excluded_.has_all(kExcluded);
    if (!is_clean) guard_.emplace(kIncluded, kExcluded);
  }
  CleanDispatch(const CleanDispatch&) = delete;
  CleanDispatch& operator=(const CleanDispatch&) = delete;

 private:
  static constexpr c10::DispatchKeySet kIncluded{
      c10::DispatchKey::BackendSelect};
  static constexpr c10::DispatchKeySet kExcluded =
      c10::default_excluded_set | c10::autograd_dispatch_keyset |
      c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);

  // Nothing to do below autograd on an ordinary thread.
  std::optional<c10::impl::ForceDispatchKeyGuard> guard_;
};

}  // namespace torch_openreg
