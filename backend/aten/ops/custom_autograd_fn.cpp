// Operators with a gradient of their own, by torch::autograd::Function. Both do
// nothing on the way forward, and halve the gradient on the way back: so one
// can see that it came this way.
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace torch_openreg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns its input. PyTorch makes that a view of it, with a history.
struct ReturnsSelf : torch::autograd::Function<ReturnsSelf> {
  static at::Tensor forward(AutogradContext* /*ctx*/, const at::Tensor& input) {
    return input;
  }
  static variable_list backward(AutogradContext* /*ctx*/,
                                const variable_list& gradients) {
    return {gradients[0] * 0.5};
  }
};

// Returns another tensor with the same memory, which the schema has to say.
struct Aliasing : torch::autograd::Function<Aliasing> {
  static at::Tensor forward(AutogradContext* /*ctx*/, const at::Tensor& input) {
    return input.view_as(input);
  }
  static variable_list backward(AutogradContext* /*ctx*/,
                                const variable_list& gradients) {
    return {gradients[0] * 0.5};
  }
};

at::Tensor returns_self(const at::Tensor& input) { return input; }
at::Tensor aliasing(const at::Tensor& input) { return input.view_as(input); }

template <typename Function>
at::Tensor with_gradient(const at::Tensor& input) {
  return Function::apply(input);
}

TORCH_LIBRARY_FRAGMENT(openreg, m) {
  m.def("custom_autograd_fn_returns_self(Tensor input) -> Tensor");
  m.def("custom_autograd_fn_aliasing(Tensor(a) input) -> Tensor(a)");
}

// With autograd. The key covers every device: a formula is not a device's.
TORCH_LIBRARY_IMPL(openreg, Autograd, m) {
  m.impl("custom_autograd_fn_returns_self",
         TORCH_FN(with_gradient<ReturnsSelf>));
  m.impl("custom_autograd_fn_aliasing", TORCH_FN(with_gradient<Aliasing>));
}

// Without autograd: in torch.inference_mode() the kernels above are passed by.
TORCH_LIBRARY_IMPL(openreg, CompositeExplicitAutograd, m) {
  m.impl("custom_autograd_fn_returns_self", TORCH_FN(returns_self));
  m.impl("custom_autograd_fn_aliasing", TORCH_FN(aliasing));
}

}  // namespace

}  // namespace torch_openreg
