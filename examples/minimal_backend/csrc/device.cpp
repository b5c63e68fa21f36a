// Devices. Full form: backend/runtime/guard.cpp, hooks.cpp, generator.cpp.
// PyTorch asks the guard and the hooks; a generator draws the random numbers.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <vector>

#include "acme.h"
#include "openreg/device.h"

namespace torch_acme {
namespace {

// Returns the device that was current before.
c10::DeviceIndex exchange_device(c10::DeviceIndex device) {
  const c10::DeviceIndex before = current_device();
  if (device != -1) check(orSetDevice(device));
  return before;
}

// What c10::DeviceGuard calls. There are only the default streams, and no
// events: PyTorch says so to programs that ask for them. Stateless, so
// thread-safe.
struct AcmeGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kAcme; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kAcme, exchange_device(device.index())};
  }
  c10::Device getDevice() const override { return {kAcme, current_device()}; }
  void setDevice(c10::Device device) const override { exchangeDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    orSetDevice(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    int count = 0;
    orGetDeviceCount(&count);  // leaves 0 if it fails
    return static_cast<c10::DeviceIndex>(count);
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceGuard guard({kAcme, device});
    check(orDeviceSynchronize());
  }
  c10::Stream getStream(c10::Device device) const override {
    const c10::DeviceGuard guard(device);
    return c10::Stream(c10::Stream::DEFAULT, guard.current_device());
  }
  c10::Stream exchangeStream(c10::Stream only) const override { return only; }
  void synchronizeStream(const c10::Stream& stream) const override {
    synchronizeDevice(stream.device_index());
  }
};

// The CPU's generator with another device: a seed gives the CPU's numbers. No
// kernel here draws; the fallback does. Thread-safe under mutex_, as all are.
struct AcmeGenerator final : at::CPUGeneratorImpl {
  explicit AcmeGenerator(c10::DeviceIndex device) {
    device_ = {kAcme, device == -1 ? current_device() : device};
    key_set_ = kKeys;
  }
  AcmeGenerator* clone_impl() const override {
    auto* const copy = new AcmeGenerator(device().index());
    copy->set_state(*get_state());
    return copy;
  }
};

// What PyTorch's core asks of a backend that it does not link to. Stateless.
struct AcmeHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return deviceCount() > 0; }
  c10::DeviceIndex deviceCount() const override {
    return AcmeGuard().deviceCount();
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchange_device(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex i) const override {
    return default_generator(i);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<AcmeGenerator>(device);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage,
                              size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

}  // namespace

c10::DeviceIndex current_device() {
  int device = 0;
  check(orGetDevice(&device));
  return static_cast<c10::DeviceIndex>(device);
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto& all = *[] {  // leaked: Python asks until the very end
    auto* const made = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < AcmeGuard().deviceCount(); ++i) {
      made->push_back(at::make_generator<AcmeGenerator>(i));
    }
    return made;
  }();
  return all.at(static_cast<size_t>(device == -1 ? current_device() : device));
}

void register_device() {
  const c10::impl::DeviceGuardImplRegistrar registrar(kAcme, new AcmeGuard);
  at::RegisterPrivateUse1HooksInterface(new AcmeHooks);
}

}  // namespace torch_acme
