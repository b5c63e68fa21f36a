// What must be over before Python ends.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <exception>
#include <thread>

#include "backend/runtime/functions.h"
#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

// Gives the autograd thread of each device something to do, and waits for it.
void run_empty_backwards() {
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    const auto options = at::TensorOptions({at::kPrivateUse1, i});
    const auto leaf = at::empty({0}, options).requires_grad_();
    leaf.view({0}).backward(at::empty({0}, options));
  }
}

// Waits until PyTorch's autograd threads have put the last backward pass away.
//
// backward() returns while the device's thread still holds the pass. If Python
// ends meanwhile, that thread asks for the interpreter's lock to drop a Python
// object, is ended by Python in the middle of a destructor, and the process
// aborts. A thread works in order, so when it has done one more pass, it holds
// nothing of the passes before. The last pass has no Python object in it: it is
// begun on a thread that has never run Python.
void finish_autograd() {
  std::exception_ptr error;
  std::thread([&error] {
    try {
      run_empty_backwards();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error != nullptr) {
    std::rethrow_exception(error);
  }
}

}  // namespace

void bind_exit(py::module_& module) {
  module.def("_finish_autograd", wrap_pybind_function_no_gil(finish_autograd));
}

}  // namespace torch_openreg::bindings
