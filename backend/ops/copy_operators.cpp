// copy_, and reading a single value.
#include <ATen/Dispatch_v2.h>
#include <torch/library.h>

#include <cstddef>

#include "backend/ops/copy.h"
#include "backend/ops/registration.h"
#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/stream.h"
#include "backend/runtime/sync_debug.h"
#include "openreg/memory.h"

namespace torch_openreg {

namespace {

void check_supported(const at::Tensor& tensor) {
  const bool is_ours = tensor.is_cpu() || tensor.is_privateuseone();
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_meta(),
                              "Cannot copy out of meta tensor; no data!");
  TORCH_CHECK_NOT_IMPLEMENTED(is_ours && tensor.layout() == at::kStrided,
                              "openreg: copies between the device and a ",
                              tensor.layout(), " tensor on ", tensor.device(),
                              " are not supported");
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst,
                     bool non_blocking) {
  check_supported(self);
  check_supported(dst);
  // Zeros that have no memory: forward-mode differentiation makes them.
  if (self._is_zerotensor()) return dst.zero_();
  copy_tensor(dst, self, non_blocking);
  return dst;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (!self.is_same(src)) copy_from(src, self, non_blocking);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return copy_from(self, dst, /*non_blocking=*/false);
}

// The value of an element, given as its bytes.
at::Scalar to_scalar(at::ScalarType dtype, const void* bytes) {
  return AT_DISPATCH_V2(
      dtype, "_local_scalar_dense_openreg",
      AT_WRAP([&] { return at::Scalar(*static_cast<const scalar_t*>(bytes)); }),
      AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
      AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES),
      at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16);
}

// Not through a tensor on the host: item() is called often.
at::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "Empty tensor not supported");
  note_synchronization();
  const c10::DeviceIndex device = self.device().index();
  const DeviceScope scope(device);
  alignas(16) std::byte bytes[sizeof(c10::complex<double>)];
  // Returns when the bytes are there: the memory is pageable.
  OPENREG_CHECK(orMemcpyAsync(bytes, self.const_data_ptr(), self.itemsize(),
                              orMemcpyDeviceToHost,
                              current_stream_handle(device)));
  return to_scalar(self.scalar_type(), bytes);
}

}  // namespace

void register_copies(torch::Library& m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

// PyTorch resolves lazy conjugation and negation by clone(), which copies: a
// copy that did not take such tensors as they are would never end. PyTorch lets
// copy_ pass for that reason, but not the form that backends get.
void register_lazy_copies(torch::Library& m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace torch_openreg
