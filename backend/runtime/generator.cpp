#include "backend/runtime/generator.h"

#include <c10/core/DispatchKeySet.h>

#include <deque>
#include <mutex>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"

namespace torch_openreg {

namespace {

OpenRegGeneratorImpl& impl_of(const at::Generator& generator) {
  return *static_cast<OpenRegGeneratorImpl*>(
      generator.unsafeGetGeneratorImpl());
}

}  // namespace

OpenRegGeneratorImpl::OpenRegGeneratorImpl(c10::DeviceIndex device,
                                           uint64_t seed)
    : engine_(at::detail::createCPUGenerator(seed)) {
  device_ = c10::Device(c10::DeviceType::PrivateUse1, device);
  key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
}

c10::DeviceType OpenRegGeneratorImpl::device_type() {
  return c10::DeviceType::PrivateUse1;
}

void OpenRegGeneratorImpl::set_current_seed(uint64_t seed) {
  const std::lock_guard lock(engine_.unsafeGetGeneratorImpl()->mutex_);
  engine_.unsafeGetGeneratorImpl()->set_current_seed(seed);
}

uint64_t OpenRegGeneratorImpl::current_seed() const {
  const std::lock_guard lock(engine_.unsafeGetGeneratorImpl()->mutex_);
  return engine_.current_seed();
}

uint64_t OpenRegGeneratorImpl::seed() {
  const std::lock_guard lock(engine_.unsafeGetGeneratorImpl()->mutex_);
  return engine_.unsafeGetGeneratorImpl()->seed();
}

void OpenRegGeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(offset == 0,
              "OpenReg generators do not count their draws, as the CPU's do "
              "not: the only offset is 0, got ",
              offset, "; use set_state");
  set_current_seed(current_seed());
}

uint64_t OpenRegGeneratorImpl::get_offset() const { return 0; }

void OpenRegGeneratorImpl::set_state(const c10::TensorImpl& state) {
  const std::lock_guard lock(engine_.unsafeGetGeneratorImpl()->mutex_);
  engine_.unsafeGetGeneratorImpl()->set_state(state);
}

c10::intrusive_ptr<c10::TensorImpl> OpenRegGeneratorImpl::get_state() const {
  const std::lock_guard lock(engine_.unsafeGetGeneratorImpl()->mutex_);
  return engine_.unsafeGetGeneratorImpl()->get_state();
}

OpenRegGeneratorImpl* OpenRegGeneratorImpl::clone_impl() const {
  auto* const clone = new OpenRegGeneratorImpl(device_.index());
  clone->set_state(*get_state());
  return clone;
}

at::Generator createOpenRegGenerator(c10::DeviceIndex device) {
  return at::make_generator<OpenRegGeneratorImpl>(device);
}

const at::Generator& getDefaultOpenRegGenerator(c10::DeviceIndex device) {
  // Leaked: a tensor that is filled at the very end still finds it. Each starts
  // with a seed of its own, as the CPU's does, until it is seeded.
  static auto& generators = *[] {
    auto* const made = new std::deque<at::Generator>;
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
      made->push_back(at::make_generator<OpenRegGeneratorImpl>(i));
      impl_of(made->back()).seed();
    }
    return made;
  }();
  return generators[static_cast<size_t>(resolve_device(device))];
}

}  // namespace torch_openreg
