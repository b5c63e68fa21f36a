// Tensors and streams.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "backend/runtime/device_allocator.h"

namespace torch_openreg {

namespace {

void record_stream(at::Tensor& self, c10::Stream stream) {
  OpenRegDeviceAllocator::get().recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace

}  // namespace torch_openreg
