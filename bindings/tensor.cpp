// Tensors: what lies behind them.
#include <ATen/core/Tensor.h>
#include <ATen/dlpack.h>

#include <optional>

#include "backend/runtime/check.h"
#include "backend/runtime/storage.h"
#include "bindings/module.h"
#include "openreg/memory.h"

namespace torch_openreg::bindings {

namespace {

// The device that the memory belongs to, -1 if to none.
int64_t device_of_pointer(uintptr_t address) {
  orPointerAttributes attributes{};
  OPENREG_CHECK(orPointerGetAttributes(&attributes,
                                       reinterpret_cast<const void*>(address)));
  return attributes.type == orMemoryTypeDevice ? attributes.device : -1;
}

// The kind of device that a DLPack capsule names, none if it is no such capsule
// or was used before.
std::optional<int> dlpack_kind(const py::object& capsule) {
  PyObject* const object = capsule.ptr();
  if (PyCapsule_IsValid(object, "dltensor") != 0) {
    const auto* const managed = static_cast<const DLManagedTensor*>(
        PyCapsule_GetPointer(object, "dltensor"));
    return managed->dl_tensor.device.device_type;
  }
  if (PyCapsule_IsValid(object, "dltensor_versioned") != 0) {
    const auto* const managed = static_cast<const DLManagedTensorVersioned*>(
        PyCapsule_GetPointer(object, "dltensor_versioned"));
    return managed->dl_tensor.device.device_type;
  }
  return std::nullopt;
}

}  // namespace

void bind_tensor(py::module_& module) {
  module.def("_device_of_pointer", wrap_pybind_function(device_of_pointer));
  module.def("_dlpack_kind", wrap_pybind_function(dlpack_kind));
  module.def("_get_storage_format",
             wrap_pybind_function([](const at::Tensor& tensor) {
               return to_openreg_storage(tensor.storage()).format();
             }));
  module.def("_set_storage_format",
             wrap_pybind_function([](const at::Tensor& tensor, int64_t format) {
               to_openreg_storage(tensor.storage()).set_format(format);
             }));
}

}  // namespace torch_openreg::bindings
