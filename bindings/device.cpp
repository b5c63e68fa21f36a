// Devices: initialisation, the current one, properties.
#include <ATen/Context.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <string>

#include "backend/fallback/fallback_log.h"
#include "backend/first_use.h"
#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/reset.h"
#include "bindings/module.h"
#include "openreg/version.h"

namespace torch_openreg::bindings {

namespace {

// Starts the backend, or says why it cannot: no devices, a bad OPENREG_* value.
// Creates no device. From here on a forked child is told that it cannot go on.
void init() {
  at::globalContext().lazyInitDevice(at::kPrivateUse1);
  device_count_ensure_non_zero();
  is_strict();  // reads OPENREG_STRICT
  torch::utils::register_fork_handler_for_device_init(at::kPrivateUse1);
  register_on_first_use();
}

int64_t exchange_device(int64_t device) {
  return device < 0 ? -1 : ExchangeDevice(to_index(device));
}

bool can_access_peer(int64_t device, int64_t peer) {
  int can_access = 0;
  OPENREG_CHECK(
      orDeviceCanAccessPeer(&can_access, to_index(device), to_index(peer)));
  return can_access != 0;
}

py::dict process_info(int64_t device) {
  orDeviceProcessInfo info{};
  info.structSize = sizeof info;
  OPENREG_CHECK(orDeviceGetProcessInfo(&info, to_index(device)));
  py::dict result;
  result["driver"] = info.driver;
  result["is_open"] = info.isOpen != 0;
  result["pid"] = info.pid;
  result["resident_memory"] = info.residentMemory;
  result["threads"] = info.threads;
  result["streams"] = info.streams;
  result["queued_commands"] = info.queuedCommands;
  result["memory_used"] = info.memoryUsed;
  result["memory_limit"] = info.memoryLimit;
  result["life"] = info.life;
  return result;
}

int driver_version() {
  int version = 0;
  OPENREG_CHECK(orDriverGetVersion(&version));
  return version;
}

std::string describe(const orDeviceProp& properties) {
  return c10::str("_DeviceProperties(name='", properties.name,
                  "', major=", properties.major, ", minor=", properties.minor,
                  ", total_memory=", properties.totalGlobalMem >> 20,
                  "MB, multi_processor_count=", properties.multiProcessorCount,
                  ", core_count=", properties.coreCount,
                  ", clock_rate=", properties.clockRate,
                  ", isolated=", properties.isolated != 0 ? "True" : "False",
                  ")");
}

// Adds a property that reads one field of the driver's struct.
template <typename T>
void add_field(py::class_<orDeviceProp>& type, const char* name,
               T orDeviceProp::* field) {
  type.def_property_readonly(
      name, [field](const orDeviceProp& self) { return self.*field; });
}

void bind_properties(py::module_& module) {
  py::class_<orDeviceProp> type(module, "_DeviceProperties",
                                "What a device is and can do.");
  type.def_property_readonly(
      "name", [](const orDeviceProp& self) { return std::string(self.name); });
  type.def_property_readonly(
      "isolated", [](const orDeviceProp& self) { return self.isolated != 0; });
  add_field(type, "major", &orDeviceProp::major);
  add_field(type, "minor", &orDeviceProp::minor);
  add_field(type, "total_memory", &orDeviceProp::totalGlobalMem);
  add_field(type, "multi_processor_count", &orDeviceProp::multiProcessorCount);
  add_field(type, "core_count", &orDeviceProp::coreCount);
  add_field(type, "clock_rate", &orDeviceProp::clockRate);
  type.def("__repr__", &describe);
}

}  // namespace

void bind_device(py::module_& module) {
  module.def("_init", wrap_pybind_function(init));
  module.def("_register_on_first_use",
             wrap_pybind_function(register_on_first_use));
  module.def("_is_in_bad_fork", wrap_pybind_function([] {
               return torch::utils::is_device_in_bad_fork(at::kPrivateUse1);
             }));
  module.def("_get_device_count", wrap_pybind_function([] {
               return static_cast<int>(device_count());
             }));
  module.def("_get_device", wrap_pybind_function([] {
               return static_cast<int>(current_device());
             }));
  module.def("_set_device", wrap_pybind_function([](int64_t device) {
               set_device(to_index(device));
             }));
  module.def("_exchange_device", wrap_pybind_function(exchange_device));
  // Setting a device creates none, so there is nothing to be careful about.
  module.def("_maybe_exchange_device", wrap_pybind_function(exchange_device));
  module.def("_device_process_info", wrap_pybind_function(process_info));
  module.def("_driver_version", wrap_pybind_function(driver_version));
  module.def("_reset_device", wrap_pybind_function_no_gil([](int64_t device) {
               reset_device(to_index(device));
             }));
  module.def("_can_device_access_peer", wrap_pybind_function(can_access_peer));
  module.def("_has_primary_context", wrap_pybind_function([](int64_t device) {
               return has_primary_context(to_index(device));
             }));
  module.def("_synchronize", wrap_pybind_function_no_gil([](int64_t device) {
               synchronize_device(to_index(device));
             }));
  bind_properties(module);
  module.def("_get_device_properties", wrap_pybind_function([](int64_t device) {
               return device_properties(to_index(device));
             }));
}

}  // namespace torch_openreg::bindings
