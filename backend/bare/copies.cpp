// Copies that change the order or the dtype of elements, by the host. The
// driver copies bytes alone; a chip has a kernel for this.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include "backend/pytorch/clean_dispatch.h"
#include "backend/pytorch/copy_values.h"
#include "backend/pytorch/tensor_kinds.h"
#include "backend/runtime/check.h"
#include "backend/runtime/sync_debug.h"
#include "backend/seam.h"
#include "openreg/memory.h"

namespace torch_openreg {

namespace {

size_t extent_of(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                          tensor.itemsize());
}

// The bytes of the tensor, from its first to its last element, as a tensor of
// the host that is laid out alike. Waits.
at::Tensor fetch(const at::Tensor& tensor, const OpenRegStream& stream) {
  const size_t bytes = extent_of(tensor);
  at::Tensor copy = at::detail::empty_cpu(
      {static_cast<int64_t>(bytes / tensor.itemsize())}, tensor.scalar_type());
  OPENREG_CHECK(orMemcpyAsync(copy.mutable_data_ptr(), tensor.const_data_ptr(),
                              bytes, orMemcpyDeviceToHost, stream.handle()));
  copy.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(),
                                                    tensor.strides());
  set_lazy_like(copy, tensor);
  return copy;
}

}  // namespace

void copy_on_device(const at::Tensor& dst, const at::Tensor& src) {
  note_synchronization();
  const CleanDispatch clean;
  const OpenRegStream stream = getCurrentOpenRegStream(dst.device().index());
  const at::Tensor from = fetch(src, stream);
  // With what lies between elements, so nobody else may write there meanwhile.
  const at::Tensor to = fetch(dst, stream);
  copy_values(to, from);
  OPENREG_CHECK(orMemcpyAsync(dst.mutable_data_ptr(), to.const_data_ptr(),
                              extent_of(dst), orMemcpyHostToDevice,
                              stream.handle()));
}

// The copy itself raises at the call.
void check_convertible(const at::Tensor& /*dst*/, const at::Tensor& /*src*/) {}

}  // namespace torch_openreg
