// Tensors. Full form: backend/ops/factories.cpp, views.cpp, resize.cpp.
// Their memory. Full form: backend/runtime/device_allocator.cpp.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "acme.h"
#include "openreg/memory.h"

namespace torch_acme {
namespace {

// orFree waits for all work of the device, so no kernel loses its memory. That
// is simple and slow; a cache hands the block to the next tensor instead.
void free_memory(void* pointer) { orFree(pointer); }

// Allocates on the current device. Stateless, so thread-safe.
struct AcmeAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = nullptr;
    check(orMalloc(&pointer, bytes));
    return {pointer, pointer, &free_memory, {kAcme, current_device()}};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    check(orMemcpy(to, from, bytes, orMemcpyDeviceToDevice));
  }
} allocator;

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> device, std::optional<bool> pinned,
                 std::optional<at::MemoryFormat> memory_format) {
  TORCH_CHECK(!pinned.value_or(false), "Only CPU tensors can be pinned");
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &allocator, kKeys,
                                   c10::dtype_or_default(dtype), memory_format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> device,
                         std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "Only CPU tensors can be pinned");
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &allocator, kKeys,
                                           c10::dtype_or_default(dtype));
}

// Gives the tensor other metadata, and a larger storage if that needs one.
void restride(const at::Tensor& self, at::IntArrayRef size,
              at::OptionalIntArrayRef stride) {
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), size, stride,
                               /*resize_storage=*/false);
  const size_t needed = at::detail::computeStorageNbytes(
      self.sizes(), self.strides(), self.itemsize(),
      static_cast<size_t>(self.storage_offset()));
  if (self.numel() > 0 && needed > self.storage().nbytes()) {
    resize_storage(self.storage(), needed);
  }
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> memory_format) {
  at::detail::check_size_nonnegative(size);
  restride(self, size, std::nullopt);
  if (memory_format.has_value()) {
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset,
                        at::IntArrayRef size, at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  restride(self, size,
           stride.data() ? at::OptionalIntArrayRef(stride) : std::nullopt);
  return self;
}

}  // namespace

void resize_storage(const c10::Storage& storage, size_t bytes) {
  c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
  TORCH_CHECK(impl.resizable(), "The storage cannot be resized");
  const c10::DeviceGuard guard(impl.device());
  c10::DataPtr data = allocator.allocate(bytes);
  allocator.copy_data(data.get(), impl.data(), std::min(impl.nbytes(), bytes));
  impl.set_data_ptr_noswap(std::move(data));
  impl.set_nbytes(bytes);
}

// Views are other metadata on the same storage: PyTorch's own functions touch
// no data and serve every device.
void register_tensors(torch::Library& m) {
  c10::SetAllocator(kAcme, &allocator);
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_.source_Storage", TORCH_FN(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
}

}  // namespace torch_acme
