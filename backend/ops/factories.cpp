// New tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include "backend/ops/new_tensor.h"
#include "backend/ops/registration.h"
#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/stream.h"
#include "openreg/memory.h"

namespace torch_openreg {

namespace {

void check_options(std::optional<at::Layout> layout,
                   std::optional<bool> pin_memory) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided,
              "openreg: expected a strided layout, got ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false),
              "Only dense CPU tensors can be pinned");
}

c10::DeviceIndex index_of(std::optional<at::Device> device) {
  if (!device.has_value()) return -1;
  TORCH_CHECK(device->is_privateuseone(), "expected an OpenReg device, got ",
              *device);
  return device->index();
}

// As the CPU's factories do.
void warn_of_complex_half(at::ScalarType type) {
  if (C10_LIKELY(type != at::kComplexHalf)) return;
  TORCH_WARN_ONCE(
      "ComplexHalf support is experimental and many operators don't support it "
      "yet.");
}

at::Tensor filled_if_deterministic(at::Tensor tensor) {
  if (must_fill_new_memory()) at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor empty_memory_format(at::IntArrayRef size,
                               std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout,
                               std::optional<at::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  const at::ScalarType type = c10::dtype_or_default(dtype);
  warn_of_complex_half(type);
  at::Tensor tensor = new_tensor(
      resolve_device(index_of(device)), type,
      at::detail::computeStorageNbytesContiguous(size, c10::elementSize(type)));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_sizes_contiguous(size);
  if (memory_format.value_or(at::MemoryFormat::Contiguous) !=
      at::MemoryFormat::Contiguous) {
    impl.empty_tensor_restride(*memory_format);
  }
  return filled_if_deterministic(std::move(tensor));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout,
                         std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  const at::ScalarType type = c10::dtype_or_default(dtype);
  warn_of_complex_half(type);
  at::Tensor tensor = new_tensor(
      resolve_device(index_of(device)), type,
      at::detail::computeStorageNbytes(size, stride, c10::elementSize(type)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return filled_if_deterministic(std::move(tensor));
}

// A number, which travels with the copy: nobody waits. PyTorch's own would be
// empty and then filled; `x[0] = 1.5` makes one.
at::Tensor scalar_tensor(const at::Scalar& number,
                         std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout,
                         std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const at::ScalarType type = c10::dtype_or_default(dtype);
  warn_of_complex_half(type);
  at::Tensor tensor = new_tensor(resolve_device(index_of(device)), type,
                                 c10::elementSize(type));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({});
  const at::Tensor value = at::scalar_tensor(number, at::dtype(type));
  const OpenRegStream stream = getCurrentOpenRegStream(tensor.device().index());
  const DeviceScope scope(stream.device_index());
  OPENREG_CHECK(orMemcpyAsync(tensor.mutable_data_ptr(), value.const_data_ptr(),
                              tensor.nbytes(), orMemcpyHostToDevice,
                              stream.handle()));
  return tensor;
}

}  // namespace

void register_factories(torch::Library& m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("scalar_tensor", TORCH_FN(scalar_tensor));
}

}  // namespace torch_openreg
