// Streams and events. torch.Stream and torch.Event do most of the work through
// the guard; here is what they cannot answer.
#include <torch/csrc/Event.h>

#include <algorithm>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "bindings/module.h"
#include "openreg/module.h"
#include "openreg/testing.h"

namespace torch_openreg::bindings {

namespace {

PackedStream pack(const OpenRegStream& stream) {
  return {stream.id(), stream.device_index(),
          static_cast<int64_t>(stream.unwrap().device_type())};
}

orStream_t to_handle(int64_t address) {
  return reinterpret_cast<orStream_t>(address);
}

// The stream's device becomes current as well.
void set_stream(const PackedStream& packed) {
  const OpenRegStream stream = unpack_stream(packed);
  set_device(stream.device_index());
  setCurrentOpenRegStream(stream);
}

const c10::Event& to_event(py::handle object) {
  TORCH_CHECK_TYPE(PyObject_TypeCheck(object.ptr(), &THPEventType),
                   "expected a torch.Event, got ",
                   Py_TYPE(object.ptr())->tp_name);
  return reinterpret_cast<THPEvent*>(object.ptr())->event;
}

// torch.Event has this, but takes no event of a derived class.
double elapsed_time(py::handle start, py::handle end) {
  return to_event(start).elapsedTime(to_event(end));
}

// Queues a kernel on the current stream that computes for that long.
void keep_busy(int64_t nanoseconds) {
  orModule_t module = nullptr;
  orFunction_t busy = nullptr;
  OPENREG_CHECK(orModuleGetBuiltin(&module));
  OPENREG_CHECK(orModuleGetFunction(&busy, module, "busy"));
  const orTestingBusyArgs arguments{
      static_cast<uint64_t>(std::max<int64_t>(nanoseconds, 0))};
  OPENREG_CHECK(orLaunchKernel(busy, &arguments, sizeof(arguments),
                               getCurrentOpenRegStream().handle()));
}

}  // namespace

OpenRegStream unpack_stream(const PackedStream& packed) {
  const auto [id, index, type] = packed;
  return OpenRegStream(c10::Stream::unpack3(
      id, to_index(index), static_cast<c10::DeviceType>(type)));
}

void bind_stream(py::module_& module) {
  module.def("_get_current_stream", wrap_pybind_function([](int64_t device) {
               return pack(getCurrentOpenRegStream(to_index(device)));
             }));
  module.def("_get_default_stream", wrap_pybind_function([](int64_t device) {
               return pack(getDefaultOpenRegStream(to_index(device)));
             }));
  module.def("_get_external_stream",
             wrap_pybind_function([](int64_t address, int64_t device) {
               return pack(
                   getStreamFromExternal(to_handle(address), to_index(device)));
             }));
  module.def("_set_stream", wrap_pybind_function(set_stream));
  module.def("_get_stream_priority",
             wrap_pybind_function([](const PackedStream& packed) {
               return unpack_stream(packed).priority();
             }));
  module.def("_event_elapsed_time", wrap_pybind_function(elapsed_time));
  module.def("_keep_busy", wrap_pybind_function_no_gil(keep_busy));
  module.def("_stream_priority_range", wrap_pybind_function([] {
               const auto [least, greatest] = stream_priority_range();
               return std::make_pair(least, greatest);
             }));
}

}  // namespace torch_openreg::bindings
