#include "backend/runtime/functions.h"

#include <array>
#include <atomic>

#include "backend/runtime/check.h"

namespace torch_openreg {

namespace {

// A bit for each device.
std::atomic<uint64_t> used_devices{0};
static_assert(OPENREG_MAX_DEVICES <= 64);

std::array<std::atomic<uint64_t>, OPENREG_MAX_DEVICES> lives{};

uint64_t bit(c10::DeviceIndex device) {
  return uint64_t{1} << static_cast<unsigned>(device);
}

}  // namespace

c10::DeviceIndex device_count() noexcept {
  static const c10::DeviceIndex count = [] {
    int number = 0;
    const orError_t code = orGetDeviceCount(&number);
    if (code == orSuccess) return static_cast<c10::DeviceIndex>(number);
    detail::warn_error(code, "orGetDeviceCount");
    return c10::DeviceIndex{0};
  }();
  return count;
}

c10::DeviceIndex device_count_ensure_non_zero() {
  int number = 0;
  OPENREG_CHECK(orGetDeviceCount(&number));
  TORCH_CHECK(number > 0,
              "No OpenReg devices are available: OPENREG_DEVICES is 0. Unset "
              "it, or set it to the number of devices to simulate.");
  return static_cast<c10::DeviceIndex>(number);
}

c10::DeviceIndex current_device() {
  int device = 0;
  OPENREG_CHECK(orGetDevice(&device));
  return static_cast<c10::DeviceIndex>(device);
}

void check_device_index(c10::DeviceIndex device) {
  const c10::DeviceIndex count = device_count();
  if (C10_LIKELY(device >= 0 && device < count)) return;
  device_count_ensure_non_zero();
  throw c10::AcceleratorError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
      orErrorInvalidDevice,
      c10::str("OpenReg error: invalid device ordinal\n"
               "The device index is out of range. It must be in [0, ",
               static_cast<int>(count), "), but got ", static_cast<int>(device),
               "."));
}

c10::DeviceIndex resolve_device(c10::DeviceIndex device) {
  if (device < 0) return current_device();
  check_device_index(device);
  return device;
}

void set_device(c10::DeviceIndex device) {
  check_device_index(device);
  OPENREG_CHECK(orSetDevice(device));
}

c10::DeviceIndex ExchangeDevice(c10::DeviceIndex device) {
  const c10::DeviceIndex before = current_device();
  if (device >= 0 && device != before) set_device(device);
  return before;
}

orDeviceProp device_properties(c10::DeviceIndex device) {
  check_device_index(device);
  orDeviceProp properties{};
  OPENREG_CHECK(orGetDeviceProperties(&properties, device));
  return properties;
}

void synchronize_device(c10::DeviceIndex device) {
  const DeviceScope scope(resolve_device(device));
  OPENREG_CHECK(orDeviceSynchronize());
}

bool has_primary_context(c10::DeviceIndex device) {
  check_device_index(device);
  return (used_devices.load(std::memory_order_relaxed) & bit(device)) != 0;
}

void set_primary_context(c10::DeviceIndex device) noexcept {
  used_devices.fetch_or(bit(device), std::memory_order_relaxed);
}

uint64_t device_life(c10::DeviceIndex device) noexcept {
  return lives[static_cast<size_t>(device)].load(std::memory_order_acquire);
}

void begin_device_life(c10::DeviceIndex device) noexcept {
  lives[static_cast<size_t>(device)].fetch_add(1, std::memory_order_release);
}

void DeviceScope::restore() noexcept { OPENREG_WARN(orSetDevice(before_)); }

}  // namespace torch_openreg
