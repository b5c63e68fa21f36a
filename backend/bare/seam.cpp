// The seam of a device that has no kernels: PyTorch takes operators apart, and
// those that have no kernel of ours go to the counted fallback. Where a vendor
// begins: his launches take the place of these answers, one by one.
#include "backend/seam.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <vector>

#include "backend/fallback/fallback.h"
#include "backend/pytorch/schema.h"

namespace torch_openreg {

namespace {

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  cpu_fallback(op, stack, FallbackReason::kNoKernel);
}

[[noreturn]] void refuse_to_draw() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "this device has no kernels that draw random numbers");
}

}  // namespace

// The global fallback is never asked for these: PyTorch has kernels for every
// device, which know some devices by name.
void register_device_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto& handles = *new std::vector<c10::RegistrationHandleRAII>;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || !is_better_whole(*op)) continue;
    handles.push_back(dispatcher.registerImpl(
        name, c10::DispatchKey::PrivateUse1,
        c10::KernelFunction::makeFromBoxedFunction<&fall_back>(), std::nullopt,
        nullptr, "OpenReg's fallback"));
  }
}

void register_device_layouts() {}

FallbackReason reason_without_kernel() { return FallbackReason::kNoKernel; }

struct DeviceOperator::Impl {
  c10::OperatorHandle op;
};

DeviceOperator::DeviceOperator(const char* name, const char* overload)
    : impl_(std::make_unique<Impl>(Impl{
          c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)})) {}

DeviceOperator::~DeviceOperator() = default;

void DeviceOperator::run(torch::jit::Stack* stack) const {
  fall_back(impl_->op, stack);
}

void DeviceOperator::launch(std::span<c10::IValue> arguments) const {
  torch::jit::Stack stack(arguments.begin(), arguments.end());
  fall_back(impl_->op, &stack);
}

// The fallback draws on the host, from the state that the host's generators
// have. Nobody calls these before a kernel that draws on the device calls
// OpenRegGeneratorImpl::prepare_draw().
void seed_device_generator(uint64_t /*id*/, uint64_t /*seed*/,
                           const OpenRegStream& /*stream*/) {
  refuse_to_draw();
}

void set_device_generator(uint64_t /*id*/, std::span<const std::byte> /*state*/,
                          const OpenRegStream& /*stream*/) {
  refuse_to_draw();
}

void get_device_generator(uint64_t /*id*/, std::span<std::byte> /*state*/,
                          const OpenRegStream& /*stream*/) {
  refuse_to_draw();
}

void drop_device_generator(uint64_t /*id*/, const OpenRegStream& /*stream*/) {}

void forget_device_kernels(c10::DeviceIndex /*device*/) {}

void refresh_settings() {}

void note_thread_count(int /*threads*/) {}

LaunchStatistics launch_statistics() { return {}; }

void set_verification(bool /*on*/) {}

}  // namespace torch_openreg
