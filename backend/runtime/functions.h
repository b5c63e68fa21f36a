// Devices, as PyTorch sees them. The names follow c10::cuda.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "backend/export.h"
#include "openreg/device.h"

namespace torch_openreg {

// The number of devices; 0, with one warning, if the driver cannot start.
// Never throws and initialises nothing.
TORCH_OPENREG_API c10::DeviceIndex device_count() noexcept;

// Throws c10::Error, saying what to do, if there are no devices or the driver
// cannot start (a bad OPENREG_* value).
TORCH_OPENREG_API c10::DeviceIndex device_count_ensure_non_zero();

// The calling thread's device.
TORCH_OPENREG_API c10::DeviceIndex current_device();

// Changes it. Throws c10::AcceleratorError if `device` does not exist.
TORCH_OPENREG_API void set_device(c10::DeviceIndex device);

// Changes it and returns the one before. A negative index changes nothing.
TORCH_OPENREG_API c10::DeviceIndex ExchangeDevice(c10::DeviceIndex device);

// Throws c10::AcceleratorError if `device` does not exist.
TORCH_OPENREG_API void check_device_index(c10::DeviceIndex device);

// `device`, or the current one if it is negative. Checked.
TORCH_OPENREG_API c10::DeviceIndex resolve_device(c10::DeviceIndex device);

TORCH_OPENREG_API orDeviceProp device_properties(c10::DeviceIndex device);

// Waits for all work of `device`.
TORCH_OPENREG_API void synchronize_device(c10::DeviceIndex device);

// Whether `device` was used by this process: has memory or a stream of its own.
// Set by those who use it.
TORCH_OPENREG_API bool has_primary_context(c10::DeviceIndex device);
TORCH_OPENREG_API void set_primary_context(c10::DeviceIndex device) noexcept;

// How often `device` was reset; and one reset more. Thread-safe.
TORCH_OPENREG_API uint64_t device_life(c10::DeviceIndex device) noexcept;
void begin_device_life(c10::DeviceIndex device) noexcept;

// Makes a device current for a scope. Unlike c10::DeviceGuard it costs no
// virtual call; a negative index, and the current one, change nothing.
class TORCH_OPENREG_API DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex device) {
    if (device < 0) return;
    const c10::DeviceIndex before = current_device();
    if (before == device) return;
    set_device(device);
    before_ = before;
  }
  ~DeviceScope() {
    if (before_ >= 0) restore();
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  void restore() noexcept;

  c10::DeviceIndex before_ = -1;  // -1: nothing to restore
};

}  // namespace torch_openreg
