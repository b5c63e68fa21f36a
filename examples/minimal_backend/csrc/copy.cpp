// Copies between tensors. Full form: backend/ops/copy.cpp.
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "acme.h"
#include "openreg/memory.h"

namespace torch_acme {
namespace {

// Copies between contiguous tensors of one dtype, behind all earlier work.
// Returns when the host may use its memory.
void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  const c10::DeviceGuard guard(to.is_cpu() ? from.device() : to.device());
  check(orMemcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes(),
                 orMemcpyDefault));
}

// Returns the same values on the CPU. Waits for them.
at::Tensor to_host(const at::Tensor& tensor) {
  if (tensor.is_conj()) return to_host(tensor.conj()).conj();
  if (tensor.is_neg()) return to_host(tensor._neg_view())._neg_view();
  at::Tensor made = at::empty(tensor.sizes(), tensor.options().device("cpu"));
  copy_bytes(made, tensor.contiguous());
  return made;
}

// The host converts, carries from device to device, and computes what a lazy
// tensor leaves to its reader: the conjugate or the negative of what it holds.
void copy(const at::Tensor& to, const at::Tensor& from) {
  if (to.is_conj()) return copy(to.conj(), from.conj());
  if (to.is_neg()) return copy(to._neg_view(), from._neg_view());
  if (from.is_privateuseone() && from.device() == to.device() &&
      from.dtype() == to.dtype() && !from.is_conj() && !from.is_neg()) {
    const bool packed = to.is_contiguous() && from.is_contiguous();
    return packed ? copy_bytes(to, from) : launch("copy", to, from, from, 0);
  }
  const at::Tensor host = from.is_cpu() ? from : to_host(from);
  if (to.is_cpu()) return static_cast<void>(to.copy_(host));
  const at::Tensor packed =
      host.to(to.scalar_type()).resolve_conj().resolve_neg().contiguous();
  if (to.is_contiguous()) return copy_bytes(to, packed);
  copy(to, packed.to(to.device()));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src,
                  bool /*non_blocking*/) {
  const at::Tensor from = src.expand(self.sizes());
  if (self.numel() > 0) copy(self, from);
  return self;
}

}  // namespace

// PyTorch resolves lazy tensors by a copy. It lets them pass to copy_, but not
// to _copy_from, with which that would never end.
void register_copies(torch::Library& m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from_and_resize",
         [](const at::Tensor& self, const at::Tensor& dst) {
           return dst.resize_(self.sizes()).copy_(self);
         });
  m.impl("_local_scalar_dense",
         [](const at::Tensor& self) { return to_host(self).item(); });
}

}  // namespace torch_acme
