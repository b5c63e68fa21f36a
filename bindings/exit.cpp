// What must be over before Python ends.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "backend/runtime/functions.h"
#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

// Note [Threads at the end of Python]
// PyTorch's autograd has a thread for each device, and it is never joined.
// While Python ends, a thread that asks for the interpreter's lock is ended by
// Python (before 3.14), by unwinding its stack; where that meets a destructor,
// C++ aborts the process. Three things keep that away:
// - finish_autograd() lets the threads drop what they hold of Python's;
// - later, nothing wakes them: autograd's engine, which is destroyed at exit,
//   would have them end beside the destructors of everything else;
// - should a thread come to it all the same, it is paused, as Python 3.14 does,
//   though not for ever.

// Gives the autograd thread of each device something to do, and waits for it.
// Throws the first failure, after all have been asked.
void run_empty_backwards() {
  std::exception_ptr first;
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    try {
      const auto options = at::TensorOptions({at::kPrivateUse1, i});
      const auto leaf = at::empty({0}, options).requires_grad_();
      leaf.view({0}).backward(at::empty({0}, options));
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

// Waits until PyTorch's autograd threads have put the last backward pass away.
//
// backward() returns while the device's thread still holds the pass. A thread
// works in order, so when it has done one more pass, it holds nothing of the
// passes before. The last pass has no Python object in it: it is begun on a
// thread that has never run Python, and anomaly mode, which would note Python's
// stack, is over.
void finish_autograd() {
  torch::autograd::AnomalyMode::set_enabled(false);
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

std::terminate_handler earlier_handler = nullptr;

[[noreturn]] void pause_or_abort() {
  // A thread that Python unwinds has no exception of C++.
  const bool is_main = gettid() == getpid();
  if (!is_main && std::current_exception() == nullptr) {
    // The process ends meanwhile; if not, it waits for this very thread.
    std::this_thread::sleep_for(std::chrono::seconds(10));
  }
  if (earlier_handler != nullptr) earlier_handler();
  std::abort();
}

void prepare_for_threads_at_the_end() {
  // How long the engine waits for its threads; with 0 it leaves them alone.
  setenv("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "0", /*replace=*/0);
  earlier_handler = std::set_terminate(pause_or_abort);
}

}  // namespace

void bind_exit(py::module_& module) {
  module.def("_finish_autograd", wrap_pybind_function_no_gil(finish_autograd));
  module.def("_prepare_for_threads_at_the_end",
             wrap_pybind_function(prepare_for_threads_at_the_end));
}

}  // namespace torch_openreg::bindings
