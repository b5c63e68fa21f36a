// The parts of torch_openreg._C; each adds its functions to the module.
//
// Every function goes through torch::wrap_pybind_function, which turns C++
// exceptions into PyTorch's Python types and C++ warnings into Python's, or
// through its form _no_gil where the call may wait for the device: what the
// device runs may need the interpreter to finish.
#pragma once

// The casters come first: all files must agree on them.
#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/Exceptions.h>

#include "backend/runtime/stream.h"

namespace torch_openreg::bindings {

namespace py = pybind11;
using torch::wrap_pybind_function;
using torch::wrap_pybind_function_no_gil;

void bind_device(py::module_& module);
void bind_engine(py::module_& module);
void bind_exit(py::module_& module);
void bind_stream(py::module_& module);
void bind_random(py::module_& module);
void bind_memory(py::module_& module);
void bind_late_operators(py::module_& module);
void bind_mem_pool(py::module_& module);
void bind_history(py::module_& module);
void bind_snapshot(py::module_& module);
void bind_tensor(py::module_& module);

// Python's number of a device. Throws c10::Error if no device can have it.
c10::DeviceIndex to_index(int64_t device);

// A stream as Python's classes take it: id, device index, device type.
using PackedStream = std::tuple<int64_t, int64_t, int64_t>;
OpenRegStream unpack_stream(const PackedStream& packed);

}  // namespace torch_openreg::bindings
