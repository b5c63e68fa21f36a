// Operators. Full form: backend/ops/, backend/simulation/host/executor.cpp.
// Three by hand: each launches a kernel, from a module that the driver loads.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "acme.h"
#include "kernels.h"
#include "openreg/module.h"

namespace torch_acme {
namespace {

// Finds a kernel on the current device. Loads the module at the first use, and
// again after a reset of the device, which unloads it. Thread-safe.
orFunction_t find_kernel(const char* name) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, orModule_t> modules;  // guarded by mutex
  const std::scoped_lock lock(mutex);
  orModule_t& module = modules[current_device()];
  orFunction_t found = nullptr;
  if (orModuleGetFunction(&found, module, name) == orSuccess) return found;
  Dl_info self;  // the module lies beside this library
  TORCH_CHECK(dladdr(reinterpret_cast<const void*>(&find_kernel), &self) != 0);
  const auto folder = std::filesystem::path(self.dli_fname).parent_path();
  check(orModuleLoad(&module, (folder / "acme_kernels.so").c_str()));
  check(orModuleGetFunction(&found, module, name));
  return found;
}

// For calls that the kernels don't serve, such as those with other dtypes.
template <typename Operator>
using Fallback = at::native::call_fallback_fn<&cpu_fallback, Operator>;

// Whether all is float32 and on one device. `x + 1` is a call with a tensor of
// the CPU that has no dimensions.
bool can_add(const at::Tensor& self, const at::Tensor& other,
             const at::Tensor& out) {
  return self.is_privateuseone() && self.device() == out.device() &&
         (self.device() == other.device() || other.dim() == 0) &&
         self.scalar_type() == at::kFloat && out.scalar_type() == at::kFloat &&
         at::result_type(self, other) == at::kFloat;
}

// The out= form. It serves add and add_ as well: PyTorch checks the arguments,
// makes the output, and calls this.
at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other,
                    const at::Scalar& alpha, at::Tensor& out) {
  if (!can_add(self, other, out)) {
    return Fallback<at::_ops::add_out>::call(self, other, alpha, out);
  }
  at::native::resize_output(out, at::infer_size(self.sizes(), other.sizes()));
  launch("add", out, self, other.to(self.options()), alpha.to<float>());
  return out;
}

// A function that returns a new tensor.
at::Tensor relu(const at::Tensor& self) {
  if (self.scalar_type() != at::kFloat) {
    return Fallback<at::_ops::relu>::call(self);
  }
  at::Tensor out = at::empty_like(self);
  launch("relu", out, self, self, 0);
  return out;
}

// In place, for every dtype: the kernel `copy` repeats a single value.
at::Tensor& fill_(at::Tensor& self, const at::Scalar& value) {
  const at::Tensor single = at::scalar_tensor(value, self.scalar_type());
  return self.copy_(single.to(self.device()));
}

}  // namespace

void launch(const char* kernel, const at::Tensor& out, const at::Tensor& left,
            const at::Tensor& right, float alpha) {
  TORCH_CHECK(out.dim() <= ACME_MAX_DIMS, "acme: too many dimensions");
  at::assert_no_internal_overlap(out);
  const auto item = static_cast<int64_t>(out.itemsize());
  acme_args args{out.dim(), item, alpha, {}, {}, {}};
  std::ranges::copy(out.sizes(), args.sizes);
  const at::Tensor tensors[] = {out, left, right};
  for (size_t t = 0; t < ACME_TENSORS; ++t) {
    at::assert_no_partial_overlap(out, tensors[t]);
    const at::Tensor each = tensors[t].expand(out.sizes());
    args.data[t] = const_cast<void*>(each.const_data_ptr());
    std::ranges::copy(each.strides(), args.strides[t]);
  }
  if (out.numel() == 0) return;
  const c10::DeviceGuard guard(out.device());
  check(orLaunchKernel(find_kernel(kernel), &args, sizeof args, nullptr));
}

void register_operators(torch::Library& m) {
  m.impl("add.out", TORCH_FN(add_out));
  m.impl("relu", TORCH_FN(relu));
  m.impl("fill_.Scalar", TORCH_FN(fill_));
}

}  // namespace torch_acme
