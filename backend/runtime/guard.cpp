#include "backend/runtime/guard.h"
#include "backend/runtime/registration.h"

#include "backend/runtime/check.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/event.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/stream.h"
#include "backend/runtime/sync_debug.h"
#include "openreg/event.h"

namespace torch_openreg {

namespace {

orEvent_t as_event(void* event) { return static_cast<orEvent_t>(event); }

unsigned int event_flags(c10::EventFlag flag) {
  switch (flag) {
    case c10::EventFlag::PYTORCH_DEFAULT:
      return orEventDisableTiming;
    case c10::EventFlag::BACKEND_DEFAULT:
      return orEventDefault;
    default:
      TORCH_CHECK(false, "OpenReg event received an unknown flag");
  }
}

c10::Device device_of(c10::DeviceIndex index) {
  return c10::Device(OpenRegGuardImpl::static_type, index);
}

}  // namespace

void register_guard() {
  // Leaked: asked until the very end.
  c10::impl::DeviceGuardImplRegistrar(OpenRegGuardImpl::static_type,
                                      new OpenRegGuardImpl);
}

OpenRegGuardImpl::OpenRegGuardImpl(c10::DeviceType type) {
  TORCH_INTERNAL_ASSERT(type == static_type);
}

c10::Device OpenRegGuardImpl::exchangeDevice(c10::Device device) const {
  TORCH_INTERNAL_ASSERT(device.type() == static_type);
  return device_of(ExchangeDevice(device.index()));
}

c10::Device OpenRegGuardImpl::getDevice() const {
  return device_of(current_device());
}

void OpenRegGuardImpl::setDevice(c10::Device device) const {
  TORCH_INTERNAL_ASSERT(device.type() == static_type);
  set_device(device.index());
}

void OpenRegGuardImpl::uncheckedSetDevice(c10::Device device) const noexcept {
  OPENREG_WARN(orSetDevice(device.index()));
}

c10::DeviceIndex OpenRegGuardImpl::deviceCount() const noexcept {
  return device_count();
}

void OpenRegGuardImpl::synchronizeDevice(c10::DeviceIndex device) const {
  synchronize_device(device);
}

c10::DeviceCapability OpenRegGuardImpl::getDeviceCapability(
    c10::Device device) const {
  resolve_device(device.index());
  return {};  // all bits are set
}

c10::Stream OpenRegGuardImpl::getStream(c10::Device device) const {
  return getCurrentOpenRegStream(device.index());
}

c10::Stream OpenRegGuardImpl::getDefaultStream(c10::Device device) const {
  return getDefaultOpenRegStream(device.index());
}

c10::Stream OpenRegGuardImpl::getNewStream(c10::Device device,
                                           int priority) const {
  return getStreamFromPool(priority, device.index());
}

c10::Stream OpenRegGuardImpl::getStreamFromGlobalPool(
    c10::Device device, bool isHighPriority) const {
  const auto [least, greatest] = stream_priority_range();
  return getStreamFromPool(isHighPriority ? greatest : least, device.index());
}

c10::Stream OpenRegGuardImpl::exchangeStream(c10::Stream stream) const {
  const OpenRegStream before = getCurrentOpenRegStream(stream.device_index());
  setCurrentOpenRegStream(OpenRegStream(stream));
  return before;
}

bool OpenRegGuardImpl::queryStream(const c10::Stream& stream) const {
  return OpenRegStream(stream).query();
}

void OpenRegGuardImpl::synchronizeStream(const c10::Stream& stream) const {
  note_synchronization();
  OpenRegStream(stream).synchronize();
}

void* OpenRegGuardImpl::getStreamNativeHandle(c10::Stream stream) const {
  return OpenRegStream(stream).handle();
}

bool OpenRegGuardImpl::isStreamCapturing(const c10::Stream& stream) const {
  check_device_index(OpenRegStream(stream).device_index());
  return false;  // there are no graphs yet
}

void OpenRegGuardImpl::record(void** event, const c10::Stream& stream,
                              c10::DeviceIndex device_index,
                              c10::EventFlag flag) const {
  TORCH_CHECK(device_index == -1 || device_index == stream.device_index(),
              "Event device index ", static_cast<int>(device_index),
              " does not match recording stream's device index ",
              static_cast<int>(stream.device_index()), ".");
  const OpenRegStream recorded(stream);
  if (*event == nullptr) *event = create_event(event_flags(flag), recorded);
  record_event(as_event(*event), recorded);
}

void OpenRegGuardImpl::block(void* event, const c10::Stream& stream) const {
  if (event != nullptr) block_on_event(as_event(event), OpenRegStream(stream));
}

bool OpenRegGuardImpl::queryEvent(void* event) const {
  return event == nullptr || query_event(as_event(event));
}

void OpenRegGuardImpl::synchronizeEvent(void* event) const {
  if (event != nullptr) OPENREG_CHECK(orEventSynchronize(as_event(event)));
}

void OpenRegGuardImpl::destroyEvent(
    void* event, c10::DeviceIndex /*device_index*/) const noexcept {
  if (event != nullptr) destroy_event(as_event(event));
}

double OpenRegGuardImpl::elapsedTime(void* start, void* end,
                                     c10::DeviceIndex /*device_index*/) const {
  float milliseconds = 0;
  OPENREG_CHECK(
      orEventElapsedTime(&milliseconds, as_event(start), as_event(end)));
  return milliseconds;
}

void OpenRegGuardImpl::recordDataPtrOnStream(const c10::DataPtr& ptr,
                                             const c10::Stream& stream) const {
  OpenRegDeviceAllocator::get().recordStream(ptr, stream);
}

}  // namespace torch_openreg
