// The executor: ATen on device memory, as a kernel module of the driver. It is
// loaded on the device's side and reaches memory through its context alone.
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include <span>

#include "backend/executor/copy_record.h"
#include "backend/executor/copy_values.h"
#include "backend/executor/execution_scope.h"
#include "openreg/kernel.h"

namespace {

using torch_openreg::TensorRecord;

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

// A CPU tensor over device memory; undefined if the kernel has failed.
at::Tensor view_of(orKernelContext* ctx, const TensorRecord& record,
                   at::ScalarType dtype) {
  size_t bytes = 0;
  if (!extent_of(record, c10::elementSize(dtype), &bytes)) {
    orKernelFail(ctx, orErrorIllegalAddress, "a tensor's extent overflows");
    return {};
  }
  void* const data =
      orKernelTranslate(ctx, reinterpret_cast<const void*>(record.data), bytes);
  if (data == nullptr) return {};
  at::Tensor tensor =
      at::from_blob(data, at::IntArrayRef(record.sizes),
                    at::IntArrayRef(record.strides), at::dtype(dtype));
  if ((record.flags & TensorRecord::kConjugate) != 0) tensor._set_conj(true);
  if ((record.flags & TensorRecord::kNegative) != 0) tensor._set_neg(true);
  return tensor;
}

orError_t copy(orKernelContext* ctx, TensorRecord dst, TensorRecord src) {
  auto dst_type = static_cast<at::ScalarType>(dst.dtype);
  auto src_type = static_cast<at::ScalarType>(src.dtype);
  if (dst_type == src_type && dst.flags == src.flags) {
    dst_type = src_type = bits_type(c10::elementSize(dst_type));
    dst.flags = src.flags = 0;
  }
  const at::Tensor to = view_of(ctx, dst, dst_type);
  const at::Tensor from = view_of(ctx, src, src_type);
  if (!to.defined() || !from.defined()) return orErrorIllegalAddress;
  torch_openreg::copy_values(to, from);
  return orSuccess;
}

}  // namespace

OPENREG_MODULE;

// Copies between two tensors of one device: any strides, any dtypes.
OPENREG_KERNEL(copy_tensor) {
  const std::span words(static_cast<const int64_t*>(ctx->args),
                        ctx->size / sizeof(int64_t));
  TensorRecord dst;
  TensorRecord src;
  if (ctx->size % sizeof(int64_t) != 0 ||
      !torch_openreg::decode_copy(words, &dst, &src)) {
    return orKernelFail(ctx, orErrorInvalidValue, "a malformed copy record");
  }
  const torch_openreg::ExecutionScope scope;
  try {
    return copy(ctx, dst, src);
  } catch (const std::exception& error) {
    return orKernelFail(ctx, orErrorLaunchFailure, error.what());
  }
}
