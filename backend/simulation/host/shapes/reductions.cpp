// Operators that take dimensions away, or all of them.
#include <ATen/WrapDimUtilsMulti.h>
#include <c10/util/irange.h>

#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

bool single_value(const Call& call, Shapes& outputs) {
  if (!is_ordinary(call.tensor(0))) return false;
  outputs.push_back(contiguous({}));
  return true;
}

// (self, other), two vectors.
bool dot(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& other = call.tensor(1);
  return self.dim() == 1 && self.sizes() == other.sizes() &&
         self.scalar_type() == other.scalar_type() && is_ordinary(other) &&
         single_value(call, outputs);
}

bool trace(const Call& call, Shapes& outputs) {
  return call.tensor(0).dim() == 2 && single_value(call, outputs);
}

// The sizes that are left; throws for dimensions that are not there.
at::DimVector reduced_sizes(const at::Tensor& self, const c10::IValue& dims,
                            bool keepdim) {
  at::DimVector wanted;
  if (!dims.isNone()) wanted = dims.toDimVector();
  const auto mask = at::dim_list_to_bitset(
      wanted.empty() ? at::OptionalIntArrayRef() : at::IntArrayRef(wanted),
      self.dim());
  at::DimVector sizes;
  for (const auto i : c10::irange(static_cast<size_t>(self.dim()))) {
    if (!mask[i]) {
      sizes.push_back(self.sizes()[i]);
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

// (self, dim, *, correction, keepdim). Warns of too few elements, which is for
// the operator to do.
bool variance(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  if (!is_ordinary(self)) return false;
  const double correction =
      call[2].isNone() ? 1.0 : call[2].toScalar().toDouble();
  const Shape shape = contiguous(reduced_sizes(self, call[1], call.boolean(3)));
  int64_t left = 1;
  for (const int64_t size : shape.sizes) left *= size;
  const int64_t reduced = self.numel() / left;  // elements of each result
  if (static_cast<double>(reduced) <= correction) return false;
  outputs.push_back(shape);
  return true;
}

bool variance_and_mean(const Call& call, Shapes& outputs) {
  if (!variance(call, outputs)) return false;
  outputs.push_back(outputs[0]);
  return true;
}

// Values and their indices along one dimension, of the arguments `dim` and
// `dim` + 1, keepdim.
bool along_dimension(const Call& call, size_t dim, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  if (!is_ordinary(self) || self.dim() == 0) return false;
  const int64_t wanted[] = {call.integer(dim)};
  const Shape shape = contiguous(
      reduced_sizes(self, at::IntArrayRef(wanted), call.boolean(dim + 1)));
  outputs.push_back(shape);
  outputs.push_back(shape);
  return true;
}

// (self, dim, keepdim)
bool median(const Call& call, Shapes& outputs) {
  return along_dimension(call, 1, outputs);
}

// (self, k, dim, keepdim)
bool kth_value(const Call& call, Shapes& outputs) {
  if (!along_dimension(call, 2, outputs)) return false;
  const int64_t k = call.integer(1);
  return k > 0 && k <= call.tensor(0).size(call.integer(2));
}

// (self, dim, keepdim)
bool logsumexp(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  if (!is_ordinary(self)) return false;
  outputs.push_back(contiguous(reduced_sizes(self, call[1], call.boolean(2))));
  return true;
}

constexpr NamedRule kRules[] = {
    {"dot", &dot},
    {"kthvalue", &kth_value},
    {"logsumexp", &logsumexp},
    {"max", &single_value},
    {"median", &single_value},
    {"median.dim", &median},
    {"min", &single_value},
    {"nanmedian", &single_value},
    {"nanmedian.dim", &median},
    {"prod", &single_value},
    {"std.correction", &variance},
    {"std_mean.correction", &variance_and_mean},
    {"trace", &trace},
    {"var.correction", &variance},
    {"var_mean.correction", &variance_and_mean},
    {"vdot", &dot},
};

}  // namespace

std::span<const NamedRule> reduction_rules() { return kRules; }

}  // namespace torch_openreg::shapes
