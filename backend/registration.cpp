// Everything that PyTorch is given when the library is loaded, in order. What
// takes too long for an import is in first_use.cpp.
#include "backend/ops/registration.h"
#include "backend/fallback/fallback.h"
#include "backend/pytorch/library.h"
#include "backend/runtime/registration.h"
#include "backend/seam.h"

namespace torch_openreg {

namespace {

void register_runtime() {
  register_hooks();
  register_guard();
  register_device_allocator();
  register_host_allocator();
  register_storage();
  register_tensor_metadata();
  register_profiler();
}

void register_operators() {
  torch::Library& device = implement("aten", c10::DispatchKey::PrivateUse1);
  register_factories(device);
  register_views(device);
  register_resizing(device);
  register_copies(device);
  register_streams(device);
  register_abs_stub(device);
  register_attention(device);
  register_dropout(device);
  register_fused_cells(device);
  register_histograms(device);
  register_recurrent(device);
  register_recurrent(implement("aten", c10::DispatchKey::AutogradPrivateUse1));
  register_lazy_copies(implement("aten", c10::DispatchKey::Conjugate));
  register_lazy_copies(implement("aten", c10::DispatchKey::Negative));
  register_custom_abs();
  register_custom_autograd_fn();
  register_custom_sub();
}

void register_backend() {
  register_runtime();
  register_operators();
  register_device_kernels();
  register_fallback(implement("_", c10::DispatchKey::PrivateUse1));
}

const bool kRegistered = [] {
  register_backend();
  return true;
}();

}  // namespace

}  // namespace torch_openreg
