// Operators that pick elements, or put them elsewhere.
#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

// (self, dim, index)
bool index_select(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  const int64_t dim = call.integer(1);
  if (!is_ordinary(self) || !is_ordinary(index) || self.dim() == 0 ||
      index.dim() != 1 || dim < -self.dim() || dim >= self.dim()) {
    return false;
  }
  at::DimVector sizes(self.sizes());
  sizes[static_cast<size_t>(dim < 0 ? dim + self.dim() : dim)] = index.size(0);
  outputs.push_back(contiguous(sizes));
  return true;
}

// (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
bool embedding_backward(const Call& call, Shapes& outputs) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  if (!is_ordinary(grad) || !is_ordinary(indices) || call.integer(2) <= 0 ||
      grad.dim() != indices.dim() + 1 ||
      grad.sizes().slice(0, grad.sizes().size() - 1) != indices.sizes()) {
    return false;
  }
  const int64_t sizes[] = {call.integer(2), grad.size(-1)};
  outputs.push_back(contiguous(sizes));
  return true;
}

// (self, index)
bool take(const Call& call, Shapes& outputs) {
  if (!is_ordinary(call.tensor(0)) || !is_contiguous(call.tensor(1))) {
    return false;
  }
  outputs.push_back(contiguous(call.tensor(1).sizes()));
  return true;
}

// (self, dims)
bool flip(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  at::DimVector seen(static_cast<size_t>(self.dim()), 0);
  for (const int64_t dim : call.integers(1)) {
    if (dim < -self.dim() || dim >= self.dim()) return false;
    if (++seen[static_cast<size_t>(dim < 0 ? dim + self.dim() : dim)] > 1) {
      return false;
    }
  }
  if (!is_contiguous(self)) return false;
  outputs.push_back(contiguous(self.sizes()));
  return true;
}

// (self, shifts, dims)
bool roll(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector dims = call.integers(2);
  if (!is_contiguous(self) || dims.empty() ||
      dims.size() != call.integers(1).size()) {
    return false;
  }
  for (const int64_t dim : dims) {
    if (dim < -self.dim() || dim >= self.dim()) return false;
  }
  outputs.push_back(contiguous(self.sizes()));
  return true;
}

constexpr NamedRule kRules[] = {
    {"embedding_dense_backward", &embedding_backward},
    {"flip", &flip},
    {"index_select", &index_select},
    {"roll", &roll},
    {"take", &take},
};

}  // namespace

std::span<const NamedRule> indexing_rules() { return kRules; }

}  // namespace torch_openreg::shapes
