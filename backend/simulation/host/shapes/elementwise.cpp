// Operators that compute each element by itself, with broadcasting.
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>

#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

// Finds the shape of an output that is left to PyTorch's iterator, which is
// what these operators are written with. It touches no data.
class ShapeIterator final : public at::TensorIteratorBase {
 public:
  explicit ShapeIterator(at::TensorIteratorConfig& config) { build(config); }

  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes,
                              at::IntArrayRef strides,
                              at::TensorOptions options) override {
    output_ = strides.empty()
                  ? at::detail::empty_meta(sizes, at::kFloat, std::nullopt,
                                           std::nullopt, std::nullopt,
                                           options.memory_format_opt())
                  : at::detail::empty_strided_meta(sizes, strides, at::kFloat);
    TensorIteratorBase::set_output_raw_strided(index, sizes, strides, options);
  }

  const at::Tensor& maybe_get_output(int64_t /*index*/) override {
    return output_;
  }

 private:
  at::Tensor output_;
};

Shape broadcast_shape(at::ArrayRef<const at::Tensor*> inputs) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .check_all_same_device(false)
      .declare_static_dtype_and_device(at::kFloat, at::kMeta)
      .add_owned_output(at::Tensor());
  for (const at::Tensor* const input : inputs) config.add_const_input(*input);
  ShapeIterator iterator(config);
  const at::Tensor& output = iterator.maybe_get_output(0);
  return {at::DimVector(output.sizes()), at::DimVector(output.strides())};
}

// The tensors among the first `count` arguments; none if one of them is not
// ordinary.
c10::SmallVector<const at::Tensor*, 4> ordinary_tensors(const Call& call,
                                                        size_t count) {
  c10::SmallVector<const at::Tensor*, 4> tensors;
  for (size_t i = 0; i < count; ++i) {
    if (!call.has_tensor(i)) continue;
    if (!is_ordinary(call.tensor(i))) return {};
    tensors.push_back(&call.tensor(i));
  }
  return tensors;
}

bool are_alike(at::ArrayRef<const at::Tensor*> tensors) {
  for (const at::Tensor* const tensor : tensors) {
    if (!tensor->is_contiguous() || tensor->sizes() != tensors[0]->sizes()) {
      return false;
    }
  }
  return true;
}

bool elementwise(const Call& call, Shapes& outputs) {
  const auto tensors = ordinary_tensors(call, call.size());
  if (tensors.empty()) return false;
  outputs.push_back(are_alike(tensors) ? contiguous(tensors[0]->sizes())
                                       : broadcast_shape(tensors));
  return true;
}

// A tensor and numbers, in place: nothing new.
bool in_place(const Call& call, Shapes& /*outputs*/) {
  return is_ordinary(call.tensor(0));
}

// Whether every dtype can hold the number, or every one with a sign.
bool fits(const at::Tensor& tensor, const c10::IValue& number) {
  constexpr double kMost = 127;
  if (number.isComplexDouble()) return false;
  const double value = number.toScalar().toDouble();
  const bool is_signed =
      c10::isFloatingType(tensor.scalar_type()) ||
      (c10::isSignedType(tensor.scalar_type()) && !tensor.is_complex());
  return value <= kMost && value >= (is_signed ? -kMost : 0);
}

// (self, value)
bool fill(const Call& call, Shapes& /*outputs*/) {
  return is_ordinary(call.tensor(0)) && fits(call.tensor(0), call[1]);
}

// (self, mask, value), where the mask is as large as self.
bool masked_fill(const Call& call, Shapes& /*outputs*/) {
  return is_ordinary(call.tensor(0)) && is_ordinary(call.tensor(1)) &&
         call.tensor(0).sizes() == call.tensor(1).sizes() &&
         fits(call.tensor(0), call[2]);
}

// (self, mean, std, generator)
bool normal(const Call& call, Shapes& /*outputs*/) {
  return is_ordinary(call.tensor(0)) && call[2].toDouble() >= 0;
}

// (self, from, to, generator)
bool uniform(const Call& call, Shapes& /*outputs*/) {
  return is_ordinary(call.tensor(0)) && fits(call.tensor(0), call[1]) &&
         fits(call.tensor(0), call[2]) &&
         call[1].toDouble() <= call[2].toDouble();
}

// (self, p, generator)
bool bernoulli(const Call& call, Shapes& /*outputs*/) {
  const double p = call[1].toDouble();
  return is_ordinary(call.tensor(0)) && p >= 0 && p <= 1;
}

// Tensors of one size, without gaps.
bool all_alike(const Call& call, Shapes& outputs) {
  const auto tensors = ordinary_tensors(call, call.size());
  if (tensors.empty() || !are_alike(tensors)) return false;
  outputs.push_back(contiguous(tensors[0]->sizes()));
  return true;
}

bool two_like_the_first(const Call& call, Shapes& outputs) {
  if (!all_alike(call, outputs)) return false;
  outputs.push_back(outputs[0]);
  return true;
}

// The losses: (…, reduction), where nothing is reduced by 0.
bool loss(const Call& call, size_t reduction, Shapes& outputs) {
  const auto tensors = ordinary_tensors(call, reduction);
  if (tensors.empty() || !are_alike(tensors)) return false;
  const bool is_reduced = call.integer(reduction) != 0;
  outputs.push_back(
      contiguous(is_reduced ? at::IntArrayRef() : tensors[0]->sizes()));
  return true;
}

bool huber_loss(const Call& call, Shapes& outputs) {
  return loss(call, 2, outputs);
}

bool binary_cross_entropy(const Call& call, Shapes& outputs) {
  return loss(call, 3, outputs);
}

// (grad_output, self, …): the gradient may be a single number.
bool loss_backward(const Call& call, Shapes& outputs) {
  if (!is_ordinary(call.tensor(0))) return false;
  const at::Tensor& self = call.tensor(1);
  for (size_t i = 1; i < call.size(); ++i) {
    if (call.has_tensor(i) && (!is_contiguous(call.tensor(i)) ||
                               call.tensor(i).sizes() != self.sizes())) {
      return false;
    }
  }
  if (call.tensor(0).dim() != 0 && call.tensor(0).sizes() != self.sizes()) {
    return false;
  }
  outputs.push_back(contiguous(self.sizes()));
  return true;
}

// (grad_output, self, dim): self has twice the elements in `dim`.
bool glu_backward(const Call& call, Shapes& outputs) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  const int64_t dim = call.integer(2);
  if (!is_ordinary(grad) || !is_contiguous(self) || self.dim() == 0 ||
      dim < -self.dim() || dim >= self.dim() || self.size(dim) % 2 != 0) {
    return false;
  }
  at::DimVector half(self.sizes());
  half[static_cast<size_t>(dim < 0 ? dim + self.dim() : dim)] /= 2;
  if (grad.sizes() != at::IntArrayRef(half)) return false;
  outputs.push_back(contiguous(self.sizes()));
  return true;
}

constexpr NamedRule kRules[] = {
    {"__lshift__*", &elementwise},
    {"__rshift__*", &elementwise},
    {"_prelu_kernel", &elementwise},
    {"_prelu_kernel_backward", &two_like_the_first},
    {"add_.Scalar", &in_place},
    {"bernoulli_.float", &bernoulli},
    {"binary_cross_entropy", &binary_cross_entropy},
    {"binary_cross_entropy_backward", &loss_backward},
    {"complex", &elementwise},
    {"div_.Scalar", &in_place},
    {"div_.Scalar_mode", &in_place},
    {"fill_.Scalar", &fill},
    {"floor_divide", &elementwise},
    {"glu_backward", &glu_backward},
    {"hardswish", &elementwise},
    {"hardswish_backward", &elementwise},
    {"hardtanh", &elementwise},
    {"hardtanh_backward", &all_alike},
    {"huber_loss", &huber_loss},
    {"isnan", &elementwise},
    {"log_sigmoid_backward", &all_alike},
    {"log_sigmoid_forward", &two_like_the_first},
    {"logical_and", &elementwise},
    {"logical_not", &elementwise},
    {"logical_or", &elementwise},
    {"logical_xor", &elementwise},
    {"logit", &elementwise},
    {"masked_fill_.Scalar", &masked_fill},
    {"mish_backward", &all_alike},
    {"mse_loss_backward", &loss_backward},
    {"mul_.Scalar", &in_place},
    {"nan_to_num", &elementwise},
    {"native_dropout_backward", &elementwise},
    {"normal_", &normal},
    {"polar", &elementwise},
    {"relu", &elementwise},
    {"rsub.Tensor", &elementwise},
    {"sub_.Scalar", &in_place},
    {"uniform_", &uniform},
    {"where.self", &elementwise},
    {"zero_", &in_place},
};

}  // namespace

std::span<const NamedRule> elementwise_rules() { return kRules; }

}  // namespace torch_openreg::shapes
