// Random number generators.
#include <ATen/Context.h>

#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

// Asks PyTorch, which asks OpenRegHooksInterface::getDefaultGenerator.
at::Generator default_generator(int64_t device) {
  return at::globalContext().defaultGenerator(
      at::Device(at::kPrivateUse1, to_index(device)));
}

}  // namespace

void bind_random(py::module_& module) {
  module.def("_get_default_generator", wrap_pybind_function(default_generator));
}

}  // namespace torch_openreg::bindings
