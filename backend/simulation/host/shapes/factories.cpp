// New tensors from numbers.
#include <ATen/native/RangeUtils.h>

#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

// As many elements as PyTorch makes: integers are counted exactly.
int64_t range_size(const at::Scalar& start, const at::Scalar& end,
                   const at::Scalar& step, const c10::IValue& dtype) {
  const bool all_integral =
      start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  const bool is_long = dtype.isNone()
                           ? all_integral
                           : dtype.toScalarType() == c10::ScalarType::Long;
  return is_long ? at::native::compute_arange_size<int64_t>(start, end, step)
                 : at::native::compute_arange_size<double>(start, end, step);
}

bool vector(int64_t size, Shapes& outputs) {
  if (size <= 0) return false;
  outputs.push_back(contiguous({size}));
  return true;
}

bool arange(const Call& call, Shapes& outputs) {
  return vector(range_size(0, call[0].toScalar(), 1, call[1]), outputs);
}

bool arange_from(const Call& call, Shapes& outputs) {
  return vector(range_size(call[0].toScalar(), call[1].toScalar(), 1, call[2]),
                outputs);
}

bool arange_by(const Call& call, Shapes& outputs) {
  return vector(range_size(call[0].toScalar(), call[1].toScalar(),
                           call[2].toScalar(), call[3]),
                outputs);
}

bool matrix(int64_t rows, int64_t columns, Shapes& outputs) {
  if (rows <= 0 || columns <= 0) return false;
  const int64_t sizes[] = {rows, columns};
  outputs.push_back(contiguous(sizes));
  return true;
}

bool eye(const Call& call, Shapes& outputs) {
  return matrix(call.integer(0), call.integer(0), outputs);
}

bool eye_of(const Call& call, Shapes& outputs) {
  return matrix(call.integer(0), call.integer(1), outputs);
}

// (start, end, steps, …)
bool linspace(const Call& call, Shapes& outputs) {
  return vector(call.integer(2), outputs);
}

// (n, generator, out), where `out` has its size.
bool randperm(const Call& call, Shapes& /*outputs*/) {
  const at::Tensor& out = call.tensor(2);
  return is_contiguous(out) && out.dim() == 1 && out.size(0) == call.integer(0);
}

// (self, num_samples, replacement, generator)
bool multinomial(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  const int64_t samples = call.integer(1);
  constexpr int64_t kMostCategories = 1 << 24;  // floats count no further
  if (!is_ordinary(self) || self.dim() < 1 || self.dim() > 2 || samples <= 0 ||
      self.size(-1) > kMostCategories ||
      (!call.boolean(2) && samples > self.size(-1))) {
    return false;
  }
  at::DimVector sizes(self.sizes());
  sizes.back() = samples;
  outputs.push_back(contiguous(sizes));
  return true;
}

constexpr NamedRule kRules[] = {
    {"arange", &arange},
    {"arange.start", &arange_from},
    {"arange.start_step", &arange_by},
    {"eye", &eye},
    {"eye.m", &eye_of},
    {"linspace", &linspace},
    {"logspace", &linspace},
    {"multinomial", &multinomial},
    {"randperm.generator_out", &randperm},
};

}  // namespace

std::span<const NamedRule> factory_rules() { return kRules; }

}  // namespace torch_openreg::shapes
