// Operators with a gradient of their own, by torch::autograd::Function. Both do
// nothing on the way forward, and halve the gradient on the way back: so one
// can see that it came this way.
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "backend/ops/registration.h"
#include "backend/pytorch/library.h"

namespace torch_openreg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns its input itself; with autograd, PyTorch makes a view of it, which
// gets the history.
at::Tensor returns_self(const at::Tensor& input) { return input; }

// Returns another tensor with the same memory: its schema has to say so.
at::Tensor aliasing(const at::Tensor& input) { return input.view_as(input); }

// What `Compute` does, and its gradient. What the backward needs of the forward
// would be kept in the context: ctx->save_for_backward({input}).
template <at::Tensor (*Compute)(const at::Tensor&)>
struct HalvesGradient : torch::autograd::Function<HalvesGradient<Compute>> {
  static at::Tensor forward(AutogradContext* /*ctx*/, const at::Tensor& input) {
    return Compute(input);
  }
  // One gradient for each argument of forward.
  static variable_list backward(AutogradContext* /*ctx*/,
                                const variable_list& gradients) {
    return {gradients[0].mul(0.5)};
  }
};

template <at::Tensor (*Compute)(const at::Tensor&)>
at::Tensor with_gradient(const at::Tensor& input) {
  return HalvesGradient<Compute>::apply(input);
}

}  // namespace

void register_custom_autograd_fn() {
  torch::Library& m = define("openreg");
  m.def("custom_autograd_fn_returns_self(Tensor input) -> Tensor");
  m.def("custom_autograd_fn_aliasing(Tensor(a) input) -> Tensor(a)");
  // With autograd. The key covers every device: a formula is not a device's.
  implement("openreg", c10::DispatchKey::Autograd)
      .impl("custom_autograd_fn_returns_self",
            TORCH_FN(with_gradient<returns_self>))
      .impl("custom_autograd_fn_aliasing", TORCH_FN(with_gradient<aliasing>));
  // Without autograd: in torch.inference_mode() the kernels above are passed
  // by.
  implement("openreg", c10::DispatchKey::CompositeExplicitAutograd)
      .impl("custom_autograd_fn_returns_self", TORCH_FN(returns_self))
      .impl("custom_autograd_fn_aliasing", TORCH_FN(aliasing));
}

}  // namespace torch_openreg
