// Operators that are registered after the backend, for tests of what it does
// with operators of libraries that a program loads later.
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

at::Tensor twice(const at::Tensor& x) { return x * 2; }

at::Tensor& twice_(at::Tensor& x) { return x.mul_(2); }

at::Tensor total(at::TensorList tensors) {
  at::Tensor sum = at::zeros({});
  for (const at::Tensor& tensor : tensors) sum = sum + tensor.sum();
  return sum;
}

at::Tensor fail(const at::Tensor& /*x*/) {
  TORCH_CHECK_VALUE(false, "this kernel fails");
}

// Adds the operators openreg_late::double, double_, total and fail, which have
// kernels for the CPU only. Does nothing but the first time.
void register_late_operators() {
  static const torch::Library* const library = [] {
    auto* const made = new torch::Library(torch::Library::DEF, "openreg_late",
                                          std::nullopt, __FILE__, __LINE__);
    torch::Library& m = *made;
    m.def("double(Tensor x) -> Tensor");
    m.def("double_(Tensor(a!) x) -> Tensor(a!)");
    m.def("total(Tensor[] xs) -> Tensor");
    m.def("fail(Tensor x) -> Tensor");
    m.impl("double", c10::DispatchKey::CPU, TORCH_FN(twice));
    m.impl("double_", c10::DispatchKey::CPU, TORCH_FN(twice_));
    m.impl("total", c10::DispatchKey::CPU, TORCH_FN(total));
    m.impl("fail", c10::DispatchKey::CPU, TORCH_FN(fail));
    return made;
  }();
  (void)library;
}

}  // namespace

void bind_late_operators(py::module_& module) {
  module.def("_register_late_operators",
             wrap_pybind_function(register_late_operators));
}

}  // namespace torch_openreg::bindings
