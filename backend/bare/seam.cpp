// The seam of a device that has no kernels: every operator without one written
// by hand goes to the counted fallback. Where a vendor begins: what he launches
// takes the place of these answers, one by one.
#include "backend/seam.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <utility>

#include "backend/fallback/fallback.h"
#include "backend/pytorch/library.h"

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

// PyTorch would take these apart into operators that it has for devices which
// it knows by name.
void register_device_kernels() {
  torch::Library& m = implement("aten", c10::DispatchKey::PrivateUse1);
  for (const char* const name : {"convolution", "convolution_backward"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fall_back>());
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

// The fallback draws on the host, so the host's generators have the state.
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

void drop_device_generator(uint64_t /*id*/, const OpenRegStream& /*stream*/) {
  refuse_to_draw();
}

void forget_device_kernels(c10::DeviceIndex /*device*/) {}

void refresh_settings() {}

void note_thread_count(int /*threads*/) {}

LaunchStatistics launch_statistics() { return {}; }

void set_verification(bool /*on*/) {}

}  // namespace torch_openreg
