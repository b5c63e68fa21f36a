// Tensors that get another size, or another storage.
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/set_native.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include "backend/ops/new_tensor.h"
#include "backend/ops/registration.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/storage.h"

namespace torch_openreg {

namespace {

c10::Storage new_storage(const at::Tensor& tensor) {
  return c10::Storage(c10::make_intrusive<OpenRegStorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0,
      c10::DataPtr(nullptr, tensor.device()), &OpenRegDeviceAllocator::get(),
      /*resizable=*/true));
}

// Makes the storage large enough for what the tensor's metadata says.
void grow_storage(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const size_t needed = at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.itemsize(),
      tensor.storage_offset());
  if (needed <= tensor.storage().nbytes()) return;
  at::native::resize_bytes_nocuda(tensor.storage(), needed);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> memory_format) {
  const int64_t bytes_before = static_cast<int64_t>(self.storage().nbytes());
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    at::detail::check_size_nonnegative(size);
    // What is needed is known before anything changes, so that a failure
    // leaves the tensor as it was.
    const size_t needed = at::detail::computeStorageNbytesContiguous(
        size, self.itemsize(), self.storage_offset());
    if (c10::multiply_integers(size) > 0 && needed > self.storage().nbytes()) {
      at::native::resize_bytes_nocuda(self.storage(), needed);
    }
    impl->set_sizes_contiguous(size);
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve,
                "Unsupported memory format ", *memory_format);
    impl->empty_tensor_restride(*memory_format);
    grow_storage(self);
  }
  if (must_fill_new_memory()) {
    at::native::fill_resize_deterministic_(self, bytes_before);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source,
                        int64_t storage_offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, storage_offset, size, stride,
                              /*check_offset_in_bounds=*/false);
  // PyTorch takes a negative stride for one that is not known yet, and makes
  // one up; this refuses it.
  const bool is_strided = stride.data() != nullptr;
  if (is_strided) {
    at::detail::computeStorageNbytes(size, stride, self.itemsize(),
                                     static_cast<size_t>(storage_offset));
  }
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(storage_offset);
  if (is_strided) {
    impl->set_sizes_and_strides(size, stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
  grow_storage(self);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const auto size =
      static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, size, {});
}

at::Tensor& set_empty(at::Tensor& self) {
  return set_storage(self, new_storage(self), 0, {0}, {});
}

}  // namespace

void register_resizing(torch::Library& m) {
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
}

}  // namespace torch_openreg
