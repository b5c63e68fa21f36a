// Histograms of integers, which accelerators count and the CPU refuses.
// Programs know that of the CPU by its name, so they hand a device integers.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/histc.h>
#include <torch/library.h>

#include "backend/ops/registration.h"
#include "backend/seam.h"

namespace torch_openreg {

namespace {

bool counts_integers(const at::Tensor& self) {
  return at::isIntegralType(self.scalar_type(), /*includeBool=*/false);
}

// The counts have the dtype of what is counted, as on CUDA.
at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& min,
                 const at::Scalar& max) {
  if (counts_integers(self)) {
    return at::histc(self.to(at::kDouble), bins, min, max)
        .to(self.scalar_type());
  }
  torch::jit::Stack stack{self, bins, min, max};
  static const auto& op = *new DeviceOperator("aten::histc", "");
  op.run(&stack);
  return stack.at(0).toTensor();
}

at::Tensor& histc_out(const at::Tensor& self, int64_t bins,
                      const at::Scalar& min, const at::Scalar& max,
                      at::Tensor& out) {
  if (!counts_integers(self)) {
    torch::jit::Stack stack{self, bins, min, max, out};
    static const auto& op = *new DeviceOperator("aten::histc", "out");
    op.run(&stack);
    return out;
  }
  TORCH_CHECK(out.scalar_type() == self.scalar_type(),
              "torch.histogram: input tensor and hist tensor should have the "
              "same dtype, but got input ",
              self.scalar_type(), " and hist ", out.scalar_type());
  const at::Tensor counts = at::histc(self, bins, min, max);
  at::native::resize_output(out, counts.sizes());
  return out.copy_(counts);
}

}  // namespace

void register_histograms(torch::Library& m) {
  m.impl("histc", TORCH_FN(histc));
  m.impl("histc.out", TORCH_FN(histc_out));
}

}  // namespace torch_openreg
