#include "backend/aten/new_tensor.h"

#include <ATen/Context.h>

#include "backend/executor/lazy_flags.h"
#include "backend/first_use.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/storage.h"

namespace torch_openreg {

at::Tensor new_tensor(c10::DeviceIndex device, at::ScalarType dtype,
                      size_t bytes) {
  register_on_first_use();
  OpenRegDeviceAllocator& allocator = OpenRegDeviceAllocator::get();
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::make_intrusive<OpenRegStorageImpl>(
          c10::StorageImpl::use_byte_size_t(), bytes,
          allocator.allocate_on(device, bytes), &allocator,
          /*resizable=*/true)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
}

at::Tensor make_output(const record::OutputShape& shape,
                       c10::DeviceIndex device) {
  const record::FirstWord first = record::FirstWord::unpack(shape.tensor[0]);
  const size_t dimensions = first.dimensions;
  const auto* const numbers =
      reinterpret_cast<const int64_t*>(shape.tensor.data() + 1);
  at::Tensor tensor = new_tensor(
      device, static_cast<c10::ScalarType>(first.dtype), shape.bytes);
  if (dimensions != 1 || numbers[0] != 0 || numbers[1] != 1) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
        {numbers, dimensions}, {numbers + dimensions, dimensions});
  }
  if (C10_UNLIKELY(first.flags != 0)) set_lazy_flags(tensor, first.flags);
  return tensor;
}

bool must_fill_new_memory() {
  const at::Context& context = at::globalContext();
  return C10_UNLIKELY(context.deterministicAlgorithms() &&
                      context.deterministicFillUninitializedMemory());
}

}  // namespace torch_openreg
