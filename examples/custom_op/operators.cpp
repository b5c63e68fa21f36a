// The operators: their schemas, and a kernel for each kind of tensor. Those for
// the device run on the host: they check, allocate, and launch.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/stream.h"
#include "kernels.h"
#include "openreg/module.h"

namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

void check(const at::Tensor& x, const at::Tensor& gate) {
  TORCH_CHECK(x.device() == gate.device(), "silu_mul: x is on ", x.device(),
              " and gate on ", gate.device());
  TORCH_CHECK(x.sizes() == gate.sizes(), "silu_mul: x has the sizes ",
              x.sizes(), " and gate ", gate.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(
      x.scalar_type() == at::kFloat && gate.scalar_type() == at::kFloat,
      "silu_mul: x is ", x.scalar_type(), " and gate ", gate.scalar_type(),
      ", only float32 is there");
}

// The kernels lie beside this library.
std::string module_path() {
  Dl_info info;
  TORCH_CHECK(dladdr(reinterpret_cast<const void*>(&module_path), &info) != 0);
  const std::filesystem::path here(info.dli_fname);
  return here.parent_path() / "silu_mul_kernels.so";
}

// Finds a kernel on the current device. Loads the module at the first use, and
// again after a reset of the device, which unloads it. Thread-safe.
orFunction_t find_kernel(const char* name) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, orModule_t> modules;  // guarded by mutex
  const std::scoped_lock lock(mutex);
  orModule_t& module = modules[torch_openreg::current_device()];
  orFunction_t found = nullptr;
  if (orModuleGetFunction(&found, module, name) == orSuccess) return found;
  OPENREG_CHECK(orModuleLoad(&module, module_path().c_str()));
  OPENREG_CHECK(orModuleGetFunction(&found, module, name));
  return found;
}

// Queues a kernel on the current stream; the host does not wait.
template <typename Args>
void launch(const char* kernel, const Args& args) {
  const auto stream = torch_openreg::getCurrentOpenRegStream();
  OPENREG_CHECK(
      orLaunchKernel(find_kernel(kernel), &args, sizeof args, stream.handle()));
}

at::Tensor silu_mul(const at::Tensor& x, const at::Tensor& gate) {
  check(x, gate);
  const c10::DeviceGuard guard(x.device());
  const at::Tensor left = x.contiguous();
  const at::Tensor right = gate.contiguous();
  at::Tensor out = at::empty_like(left);
  launch("silu_mul", silu_mul_args{left.const_data_ptr<float>(),
                                   right.const_data_ptr<float>(),
                                   out.mutable_data_ptr<float>(),
                                   static_cast<size_t>(out.numel())});
  return out;
}

Pair silu_mul_backward(const at::Tensor& grad, const at::Tensor& x,
                       const at::Tensor& gate) {
  check(x, gate);
  check(x, grad);
  const c10::DeviceGuard guard(x.device());
  const at::Tensor upper = grad.contiguous();
  const at::Tensor left = x.contiguous();
  const at::Tensor right = gate.contiguous();
  at::Tensor grad_x = at::empty_like(left);
  at::Tensor grad_gate = at::empty_like(left);
  launch("silu_mul_backward",
         silu_mul_backward_args{
             upper.const_data_ptr<float>(), left.const_data_ptr<float>(),
             right.const_data_ptr<float>(), grad_x.mutable_data_ptr<float>(),
             grad_gate.mutable_data_ptr<float>(),
             static_cast<size_t>(left.numel())});
  return {grad_x, grad_gate};
}

// On the CPU the operators of PyTorch do, and are what the tests compare with.
at::Tensor silu_mul_cpu(const at::Tensor& x, const at::Tensor& gate) {
  check(x, gate);
  return x.contiguous() * at::silu(gate.contiguous());
}

Pair silu_mul_backward_cpu(const at::Tensor& grad, const at::Tensor& x,
                           const at::Tensor& gate) {
  check(x, gate);
  check(x, grad);
  const at::Tensor s = at::sigmoid(gate.contiguous());
  return {grad * gate * s, grad * x * s * (1 + gate * (1 - s))};
}

// What the results look like; torch.compile and torch.export ask for it.
at::Tensor silu_mul_meta(const at::Tensor& x, const at::Tensor& gate) {
  check(x, gate);
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}

Pair silu_mul_backward_meta(const at::Tensor& grad, const at::Tensor& x,
                            const at::Tensor& gate) {
  check(x, grad);
  return {silu_mul_meta(x, gate), silu_mul_meta(x, gate)};
}

TORCH_LIBRARY(openreg_silu_mul, m) {
  m.def("silu_mul(Tensor x, Tensor gate) -> Tensor");
  m.def(
      "silu_mul_backward(Tensor grad, Tensor x, Tensor gate) -> "
      "(Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(openreg_silu_mul, PrivateUse1, m) {
  m.impl("silu_mul", TORCH_FN(silu_mul));
  m.impl("silu_mul_backward", TORCH_FN(silu_mul_backward));
}

TORCH_LIBRARY_IMPL(openreg_silu_mul, CPU, m) {
  m.impl("silu_mul", TORCH_FN(silu_mul_cpu));
  m.impl("silu_mul_backward", TORCH_FN(silu_mul_backward_cpu));
}

TORCH_LIBRARY_IMPL(openreg_silu_mul, Meta, m) {
  m.impl("silu_mul", TORCH_FN(silu_mul_meta));
  m.impl("silu_mul_backward", TORCH_FN(silu_mul_backward_meta));
}

}  // namespace
