// Tensors and streams.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "backend/ops/registration.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/stream.h"

namespace torch_openreg {

namespace {

void record_stream(at::Tensor& self, c10::Stream stream) {
  // The allocator looks at the stream only when the tensor is gone.
  check_device_index(OpenRegStream(stream).device_index());
  OpenRegDeviceAllocator::get().recordStream(self.storage().data_ptr(), stream);
}

}  // namespace

void register_streams(torch::Library& m) {
  m.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace torch_openreg
