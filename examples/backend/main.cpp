// The device `openreg` from C++, without Python: linking libtorch_openreg is
// all that it takes. Tensors, copies from pinned memory, two streams and an
// event.
#include <ATen/TensorOperators.h>
#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <c10/core/StreamGuard.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "backend/runtime/event.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/stream.h"

namespace {

using torch_openreg::OpenRegEvent;
using torch_openreg::OpenRegStream;

void print_devices() {
  for (c10::DeviceIndex i = 0; i < torch_openreg::device_count(); ++i) {
    const orDeviceProp properties = torch_openreg::device_properties(i);
    std::cout << "openreg:" << static_cast<int>(i) << "  " << properties.name
              << ", " << (properties.totalGlobalMem >> 20) << " MiB\n";
  }
}

// Copies `host` to the device on one stream and computes with it on another.
at::Tensor compute(const at::Tensor& host, const c10::Device& device) {
  const OpenRegStream copying = torch_openreg::getStreamFromPool();
  const OpenRegStream computing = torch_openreg::getCurrentOpenRegStream();

  at::Tensor input;
  OpenRegEvent copied;
  {
    // Pinned memory and its own stream: the copy runs beside the host.
    const c10::StreamGuard guard(copying);
    input = host.pin_memory().to(device, host.scalar_type(),
                                 /*non_blocking=*/true);
    copied.record(copying);
  }
  copied.block(computing);
  // The block belongs to the stream it was allocated on; the allocator must
  // know who else reads it.
  input.record_stream(computing);
  return (input * 2 + 1).matmul(input.t());
}

int run() {
  print_devices();
  const at::Tensor host = at::arange(6, at::kFloat).reshape({2, 3});
  const at::Tensor result = compute(host, c10::Device("openreg:0"));
  std::cout << "a tensor on " << result.device() << ":\n" << result << '\n';

  // Copying back waits for the device.
  const bool same = at::equal(result.cpu(), (host * 2 + 1).matmul(host.t()));
  std::cout << (same ? "the device agrees with the CPU\n"
                     : "the device does not agree with the CPU\n");
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
