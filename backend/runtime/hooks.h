// The hooks that PyTorch's core calls by name, without linking to the backend.
#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "backend/export.h"

namespace torch_openreg {

// Stateless, so thread-safe. Overrides keep PyTorch's contracts.
struct TORCH_OPENREG_API OpenRegHooksInterface final
    : at::PrivateUse1HooksInterface {
  // Throws, saying what is wrong, if the driver cannot start or has no devices.
  // Creates no device.
  void init() const override;
  bool hasPrimaryContext(c10::DeviceIndex device_index) const override;

  bool isBuilt() const override { return true; }
  bool isAvailable() const override;
  c10::DeviceIndex deviceCount() const override;
  void setCurrentDevice(c10::DeviceIndex device) const override;
  c10::DeviceIndex getCurrentDevice() const override;
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override;
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override;

  const at::Generator& getDefaultGenerator(
      c10::DeviceIndex device_index) const override;
  at::Generator getNewGenerator(c10::DeviceIndex device_index) const override;

  at::Device getDeviceFromPtr(void* data) const override;
  bool isPinnedPtr(const void* data) const override;
  at::Allocator* getPinnedMemoryAllocator() const override;

  // Gives the storage `newsize` bytes and keeps what fits of the old content.
  // In the order of the current stream; does not wait.
  void resizePrivateUse1Bytes(const c10::Storage& storage,
                              size_t newsize) const override;
};

}  // namespace torch_openreg
