#include "backend/simulation/host/new_output.h"

#include "backend/ops/new_tensor.h"
#include "backend/simulation/common/lazy_flags.h"

namespace torch_openreg {

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

}  // namespace torch_openreg
