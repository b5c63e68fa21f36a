// The functions that PyTorch's device guards, streams and events call.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "backend/export.h"

namespace torch_openreg {

// Stateless, so thread-safe. Overrides keep PyTorch's contracts.
struct TORCH_OPENREG_API OpenRegGuardImpl final
    : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;

  OpenRegGuardImpl() = default;
  explicit OpenRegGuardImpl(c10::DeviceType type);

  c10::DeviceType type() const override { return static_type; }

  c10::Device exchangeDevice(c10::Device device) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device device) const override;
  void uncheckedSetDevice(c10::Device device) const noexcept override;
  c10::DeviceIndex deviceCount() const noexcept override;
  void synchronizeDevice(c10::DeviceIndex device) const override;
  // Every dtype of the CPU, on every device.
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override;

  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  c10::Stream getNewStream(c10::Device device, int priority) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device device,
                                      bool isHighPriority) const override;
  c10::Stream exchangeStream(c10::Stream stream) const override;
  bool queryStream(const c10::Stream& stream) const override;
  void synchronizeStream(const c10::Stream& stream) const override;
  void* getStreamNativeHandle(c10::Stream stream) const override;
  bool isStreamCapturing(const c10::Stream& stream) const override;

  void record(void** event, const c10::Stream& stream,
              c10::DeviceIndex device_index,
              c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  void destroyEvent(void* event,
                    c10::DeviceIndex device_index) const noexcept override;
  double elapsedTime(void* start, void* end,
                     c10::DeviceIndex device_index) const override;

  void recordDataPtrOnStream(const c10::DataPtr& ptr,
                             const c10::Stream& stream) const override;
};

}  // namespace torch_openreg
