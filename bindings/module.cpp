#include "bindings/module.h"

#include <limits>

namespace torch_openreg::bindings {

c10::DeviceIndex to_index(int64_t device) {
  using Limits = std::numeric_limits<c10::DeviceIndex>;
  TORCH_CHECK(device >= Limits::min() && device <= Limits::max(),
              "OpenReg error: invalid device ordinal ", device);
  return static_cast<c10::DeviceIndex>(device);
}

namespace {

void fill(py::module_& module) {
  bind_device(module);
  bind_engine(module);
  bind_exit(module);
  bind_stream(module);
  bind_random(module);
  bind_memory(module);
  bind_mem_pool(module);
  bind_history(module);
  bind_snapshot(module);
  bind_late_operators(module);
  bind_tensor(module);
}

}  // namespace

}  // namespace torch_openreg::bindings

// Makes the module; a null pointer and a Python exception if that fails. Called
// by the stub, once, with the GIL held.
extern "C" __attribute__((visibility("default"))) PyObject*
init_openreg_module() {
  namespace py = pybind11;
  static py::module_::module_def definition;
  HANDLE_TH_ERRORS
  auto module = py::module_::create_extension_module(
      "torch_openreg._C", "The PyTorch backend of OpenReg, for Python.",
      &definition);
  torch_openreg::bindings::fill(module);
  return module.release().ptr();
  END_HANDLE_TH_ERRORS
}
