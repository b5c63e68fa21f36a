#include "backend/ops/new_tensor.h"

#include <ATen/Context.h>

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

bool must_fill_new_memory() {
  const at::Context& context = at::globalContext();
  return C10_UNLIKELY(context.deterministicAlgorithms() &&
                      context.deterministicFillUninitializedMemory());
}

}  // namespace torch_openreg
