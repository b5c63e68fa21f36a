#include "backend/runtime/hooks.h"
#include "backend/runtime/registration.h"

#include <c10/core/DeviceType.h>

#include <algorithm>
#include <utility>

#include "backend/runtime/check.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/generator.h"
#include "backend/runtime/host_allocator.h"
#include "openreg/memory.h"

namespace torch_openreg {

void register_hooks() {
  // C++ programs know the device by its name as well.
  c10::register_privateuse1_backend("openreg");
  // Leaked: asked until the very end.
  at::RegisterPrivateUse1HooksInterface(new OpenRegHooksInterface);
}

void OpenRegHooksInterface::init() const { device_count_ensure_non_zero(); }

bool OpenRegHooksInterface::hasPrimaryContext(
    c10::DeviceIndex device_index) const {
  return has_primary_context(device_index);
}

bool OpenRegHooksInterface::isAvailable() const { return device_count() > 0; }

c10::DeviceIndex OpenRegHooksInterface::deviceCount() const {
  return device_count();
}

void OpenRegHooksInterface::setCurrentDevice(c10::DeviceIndex device) const {
  set_device(device);
}

c10::DeviceIndex OpenRegHooksInterface::getCurrentDevice() const {
  return current_device();
}

c10::DeviceIndex OpenRegHooksInterface::exchangeDevice(
    c10::DeviceIndex device) const {
  return ExchangeDevice(device);
}

// Nothing here costs more than the exchange itself: setting a device creates
// none.
c10::DeviceIndex OpenRegHooksInterface::maybeExchangeDevice(
    c10::DeviceIndex device) const {
  return ExchangeDevice(device);
}

const at::Generator& OpenRegHooksInterface::getDefaultGenerator(
    c10::DeviceIndex device_index) const {
  return getDefaultOpenRegGenerator(device_index);
}

at::Generator OpenRegHooksInterface::getNewGenerator(
    c10::DeviceIndex device_index) const {
  return createOpenRegGenerator(device_index);
}

at::Device OpenRegHooksInterface::getDeviceFromPtr(void* data) const {
  orPointerAttributes attributes{};
  OPENREG_CHECK(orPointerGetAttributes(&attributes, data));
  TORCH_CHECK(attributes.type == orMemoryTypeDevice, "The pointer ", data,
              " is host memory and belongs to no OpenReg device.");
  return {at::kPrivateUse1, static_cast<c10::DeviceIndex>(attributes.device)};
}

bool OpenRegHooksInterface::isPinnedPtr(const void* data) const {
  return is_pinned_ptr(data);
}

at::Allocator* OpenRegHooksInterface::getPinnedMemoryAllocator() const {
  return getOpenRegHostAllocator();
}

void OpenRegHooksInterface::resizePrivateUse1Bytes(const c10::Storage& storage,
                                                   size_t newsize) const {
  c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
  TORCH_CHECK(impl.resizable(),
              "Trying to resize storage that is not resizable");
  const DeviceScope scope(impl.device().index());
  c10::DataPtr data = OpenRegDeviceAllocator::get().allocate(newsize);
  const size_t kept = std::min(impl.nbytes(), newsize);
  if (kept > 0) {
    OPENREG_CHECK(orMemcpyAsync(data.get(), impl.data(), kept,
                                orMemcpyDeviceToDevice,
                                getCurrentOpenRegStream().handle()));
  }
  impl.set_data_ptr_noswap(std::move(data));
  impl.set_nbytes(newsize);
}

}  // namespace torch_openreg
