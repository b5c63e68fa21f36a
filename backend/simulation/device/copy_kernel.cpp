#include "backend/simulation/device/copy_kernel.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <span>
#include <stdexcept>

#include "backend/pytorch/copy_values.h"
#include "backend/simulation/common/copy_record.h"
#include "backend/simulation/common/lazy_flags.h"
#include "backend/simulation/device/decode.h"
#include "backend/simulation/device/execution_scope.h"

namespace torch_openreg::device {

namespace {

// Bits are copied as numbers of the same width: that serves every dtype,
// quantized ones and those without arithmetic included.
at::ScalarType bits_type(size_t itemsize) {
  switch (itemsize) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    case 8:
      return at::kLong;
    default:
      return at::kComplexDouble;
  }
}

// A CPU tensor over device memory.
at::Tensor view_of(orKernelContext* ctx, const TensorRecord& record) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(record.extent, c10::elementSize(record.dtype),
                             &bytes)) {
    throw std::invalid_argument("a malformed copy record: extent");
  }
  void* const data =
      orKernelTranslate(ctx, reinterpret_cast<const void*>(record.data), bytes);
  if (data == nullptr) throw IllegalAddress{};
  // Not at::from_blob(), which costs as much as a small copy.
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), bytes,
          c10::DataPtr(bytes == 0 ? nullptr : data,
                       c10::Device(c10::DeviceType::CPU)),
          nullptr, /*resizable=*/false)),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(record.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      at::IntArrayRef(record.sizes), at::IntArrayRef(record.strides));
  set_lazy_flags(tensor, record.flags);
  return tensor;
}

orError_t copy(orKernelContext* ctx, TensorRecord dst, TensorRecord src) {
  if (dst.dtype == src.dtype && dst.flags == src.flags) {
    dst.dtype = src.dtype = bits_type(c10::elementSize(dst.dtype));
    dst.flags = src.flags = 0;
  }
  const at::Tensor to = view_of(ctx, dst);
  copy_values(to, view_of(ctx, src));
  return orSuccess;
}

}  // namespace

orError_t execute_copy(orKernelContext* ctx) {
  const std::span words(static_cast<const int64_t*>(ctx->args),
                        ctx->size / sizeof(int64_t));
  TensorRecord dst;
  TensorRecord src;
  uint64_t settings = 0;
  if (ctx->size % sizeof(int64_t) != 0 ||
      !decode_copy(words, &dst, &src, &settings)) {
    throw std::invalid_argument("a malformed copy record");
  }
  const ExecutionScope scope(settings);
  return copy(ctx, dst, src);
}

}  // namespace torch_openreg::device
