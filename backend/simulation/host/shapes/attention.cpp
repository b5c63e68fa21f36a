// The CPU's flash attention.
#include <ATen/ExpandUtils.h>

#include <utility>

#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

// A tensor of these sizes whose second and third dimension have changed places
// in memory.
Shape transposed(at::IntArrayRef sizes) {
  at::DimVector order(sizes);
  std::swap(order[1], order[2]);
  Shape shape = contiguous(order);
  std::swap(shape.sizes[1], shape.sizes[2]);
  std::swap(shape.strides[1], shape.strides[2]);
  return shape;
}

// What empty_like() makes.
Shape like(const at::Tensor& tensor) {
  Shape shape{at::DimVector(tensor.sizes()), at::DimVector(tensor.strides())};
  if (!tensor.is_non_overlapping_and_dense()) {
    shape.strides = at::DimVector(
        at::infer_dense_strides(tensor.sizes(), tensor.strides()));
  }
  return shape;
}

bool is_mask(const Call& call, size_t i, const at::Tensor& query,
             const at::Tensor& key) {
  if (!call.has_tensor(i)) return true;
  const at::Tensor& mask = call.tensor(i);
  const auto fits = [&](int64_t dim, int64_t size) {
    return mask.size(dim) == size || mask.size(dim) == 1;
  };
  return is_ordinary(mask) && (mask.dim() == 2 || mask.dim() == 4) &&
         fits(-1, key.size(2)) && fits(-2, query.size(2)) &&
         (mask.dim() == 2 ||
          (fits(0, query.size(0)) && fits(1, query.size(1))));
}

// Queries, keys and values from argument `first` on.
bool fit_together(const Call& call, size_t first) {
  const at::Tensor& query = call.tensor(first);
  const at::Tensor& key = call.tensor(first + 1);
  const at::Tensor& value = call.tensor(first + 2);
  for (const size_t i : {first, first + 1, first + 2}) {
    if (!is_ordinary(call.tensor(i)) || call.tensor(i).dim() != 4 ||
        call.tensor(i).stride(-1) != 1) {
      return false;
    }
  }
  return key.sizes() == value.sizes() && query.size(0) == key.size(0) &&
         query.size(1) == key.size(1) && query.size(3) == key.size(3);
}

// (query, key, value, dropout_p, is_causal, attn_mask, scale)
bool attention(const Call& call, Shapes& outputs) {
  const at::Tensor& query = call.tensor(0);
  if (!fit_together(call, 0) || call[3].toDouble() != 0 ||
      !is_mask(call, 5, query, call.tensor(1))) {
    return false;
  }
  outputs.push_back(like(query));
  const int64_t sums[] = {query.size(0), query.size(2), query.size(1)};
  Shape shape = contiguous(sums);
  std::swap(shape.sizes[1], shape.sizes[2]);
  std::swap(shape.strides[1], shape.strides[2]);
  outputs.push_back(shape);
  return true;
}

// (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal,
// attn_mask, scale)
bool attention_backward(const Call& call, Shapes& outputs) {
  const at::Tensor& query = call.tensor(1);
  if (!fit_together(call, 1) || call[6].toDouble() != 0 ||
      !is_ordinary(call.tensor(0)) || !is_ordinary(call.tensor(4)) ||
      call.tensor(0).sizes() != query.sizes() ||
      call.tensor(4).sizes() != query.sizes() ||
      call.tensor(5).sizes() != query.sizes().slice(0, 3) ||
      !is_mask(call, 8, query, call.tensor(2))) {
    return false;
  }
  for (const size_t i : {1, 2, 3}) {
    outputs.push_back(transposed(call.tensor(i).sizes()));
  }
  return true;
}

constexpr NamedRule kRules[] = {
    {"_scaled_dot_product_flash_attention_for_cpu", &attention},
    {"_scaled_dot_product_flash_attention_for_cpu_backward",
     &attention_backward},
};

}  // namespace

std::span<const NamedRule> attention_rules() { return kRules; }

}  // namespace torch_openreg::shapes
