// The seam, answered by the simulation: what the rest of the backend asks of
// the device goes to the engine and to the executor's kernels. Four answers are
// where their state is: check_convertible in host/conversion.cpp, the settings
// in host/settings.cpp, set_verification in host/call_kinds.cpp.
#include "backend/seam.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstring>
#include <vector>

#include "backend/pytorch/library.h"
#include "backend/simulation/common/copy_record.h"
#include "backend/simulation/host/catch_all.h"
#include "backend/simulation/host/engine.h"
#include "backend/simulation/host/executor.h"
#include "backend/simulation/host/layouts/registration.h"
#include "backend/simulation/host/settings.h"

namespace torch_openreg {

void register_device_kernels() {
  register_nested(implement("aten", c10::DispatchKey::PrivateUse1));
  register_quantized(implement("aten", c10::DispatchKey::QuantizedPrivateUse1));
  register_catch_all();  // for what has no kernel by now
}

void register_device_layouts() { register_layouts(); }

FallbackReason reason_without_kernel() {
  return FallbackReason::kNotRegistered;
}

struct DeviceOperator::Impl {
  explicit Impl(const c10::OperatorHandle& op) : info(op) {}
  const OperatorInfo info;
};

DeviceOperator::DeviceOperator(const char* name, const char* overload)
    : impl_(std::make_unique<Impl>(
          c10::Dispatcher::singleton().findSchemaOrThrow(name, overload))) {}

DeviceOperator::~DeviceOperator() = default;

void DeviceOperator::run(torch::jit::Stack* stack) const {
  run_operator(impl_->info, stack);
}

void DeviceOperator::launch(std::span<c10::IValue> arguments) const {
  launch_prepared(impl_->info, arguments);
}

void copy_on_device(const at::Tensor& dst, const at::Tensor& src) {
  const CopyRecord record = encode_copy(dst, src, current_settings());
  launch_here(ExecutorKernel::kCopyTensor, record.data(),
              record.size() * sizeof record[0],
              getCurrentOpenRegStream(dst.device().index()),
              length_of(dst.nbytes()));
}

void seed_device_generator(uint64_t id, uint64_t seed,
                           const OpenRegStream& stream) {
  const uint64_t message[] = {id, seed};
  launch(ExecutorKernel::kSetGenerator, message, sizeof message, stream,
         Length::kCheap);
}

// The kernel is that of a seed: the size tells them apart.
void set_device_generator(uint64_t id, std::span<const std::byte> state,
                          const OpenRegStream& stream) {
  std::vector<std::byte> message(sizeof id + state.size());
  std::memcpy(message.data(), &id, sizeof id);
  std::memcpy(message.data() + sizeof id, state.data(), state.size());
  launch(ExecutorKernel::kSetGenerator, message.data(), message.size(), stream,
         Length::kCheap);
}

void get_device_generator(uint64_t id, std::span<std::byte> state,
                          const OpenRegStream& stream) {
  const size_t bytes =
      launch_and_wait(ExecutorKernel::kGetGenerator, &id, sizeof id, stream,
                      Length::kCheap, state.data(), state.size());
  TORCH_INTERNAL_ASSERT(bytes == state.size());
}

void drop_device_generator(uint64_t id, const OpenRegStream& stream) {
  launch(ExecutorKernel::kDropGenerator, &id, sizeof id, stream,
         Length::kCheap);
}

void forget_device_kernels(c10::DeviceIndex device) { forget_executor(device); }

LaunchStatistics launch_statistics() {
  const EngineStatistics now = engine_statistics();
  return {now.launches,        now.synchronous,  now.inferred,
          now.rehearsed,       now.cache.hits,   now.cache.misses,
          now.cache.evictions, now.cache.entries};
}

}  // namespace torch_openreg
