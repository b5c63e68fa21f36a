// Operators on lists of tensors: foreach, the fused optimizers, cat.
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

using Tensors = at::ArrayRef<c10::IValue>;

bool are_contiguous(Tensors tensors) {
  return std::ranges::all_of(tensors, [](const c10::IValue& value) {
    return value.isTensor() && is_contiguous(value.toTensor());
  });
}

// Whether all lists of tensors have the sizes of the first one's.
bool are_parallel(const Call& call, Tensors first) {
  for (size_t i = 0; i < call.size(); ++i) {
    if (!call[i].isTensorList()) continue;
    const Tensors list = call[i].toListRef();
    if (list.size() != first.size() || !are_contiguous(list)) return false;
    for (size_t k = 0; k < list.size(); ++k) {
      if (list[k].toTensor().sizes() != first[k].toTensor().sizes()) {
        return false;
      }
    }
  }
  return true;
}

// Whether every tensor that stands alone is a single value.
bool has_only_single_values(const Call& call) {
  for (size_t i = 0; i < call.size(); ++i) {
    if (call.has_tensor(i) && call.tensor(i).dim() != 0) return false;
  }
  return true;
}

// New tensors like those of the first list.
bool foreach_alike(const Call& call, Shapes& outputs) {
  if (!call[0].isTensorList() || !has_only_single_values(call)) return false;
  const Tensors self = call[0].toListRef();
  if (!are_contiguous(self) || !are_parallel(call, self)) return false;
  for (const c10::IValue& tensor : self) {
    outputs.push_back(contiguous(tensor.toTensor().sizes()));
  }
  return true;
}

// In place: no new tensors.
bool foreach_in_place(const Call& call, Shapes& outputs) {
  if (!foreach_alike(call, outputs)) return false;
  outputs.clear();
  return true;
}

// A value for each tensor.
bool foreach_single_value(const Call& call, Shapes& outputs) {
  const Tensors self = call[0].toListRef();
  if (!are_contiguous(self)) return false;
  outputs.resize(self.size(), contiguous({}));
  return true;
}

// The optimizers: parameters, gradients and states of the same sizes; lists
// that are not used are empty, and a step is a single value.
bool fused_optimizer(const Call& call, Shapes& /*outputs*/) {
  const Tensors parameters = call[0].toListRef();
  for (size_t i = 0; i < call.size(); ++i) {
    if (!call[i].isTensorList()) continue;
    const Tensors list = call[i].toListRef();
    if (list.empty()) continue;
    if (list.size() != parameters.size() || !are_contiguous(list)) return false;
    for (size_t k = 0; k < list.size(); ++k) {
      const at::Tensor& tensor = list[k].toTensor();
      if (tensor.dim() != 0 &&
          tensor.sizes() != parameters[k].toTensor().sizes()) {
        return false;
      }
    }
  }
  return has_only_single_values(call);
}

// (self, found_inf, inv_scale)
bool unscale(const Call& call, Shapes& /*outputs*/) {
  return are_contiguous(call[0].toListRef()) && call.tensor(1).numel() == 1 &&
         call.tensor(2).numel() == 1;
}

// Whether `tensor` can be joined to `first`: only `dim` may differ.
bool can_join(const at::Tensor& first, const at::Tensor& tensor, int64_t dim) {
  if (!is_ordinary(tensor) || tensor.dim() != first.dim()) return false;
  for (int64_t i = 0; i < first.dim(); ++i) {
    if (i != dim && tensor.size(i) != first.size(i)) return false;
  }
  return true;
}

// (tensors, dim). The result is channels-last where all tensors are; then the
// Meta kernel is asked.
bool cat(const Call& call, Shapes& outputs) {
  const Tensors tensors = call[0].toListRef();
  if (tensors.empty()) return false;
  const at::Tensor& first = tensors.front().toTensor();
  if (first.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call.integer(1), first.dim());
  int64_t length = 0;
  bool is_contiguous = false;
  for (const c10::IValue& value : tensors) {
    const at::Tensor& tensor = value.toTensor();
    if (!can_join(first, tensor, dim)) return false;
    length += tensor.size(dim);
    is_contiguous |=
        tensor.suggest_memory_format() == at::MemoryFormat::Contiguous;
  }
  if (!is_contiguous) return false;
  at::DimVector sizes(first.sizes());
  sizes[static_cast<size_t>(dim)] = length;
  outputs.push_back(contiguous(sizes));
  return true;
}

constexpr NamedRule kRules[] = {
    {"_amp_foreach_non_finite_check_and_unscale_", &unscale},
    {"_foreach_abs*", &foreach_alike},
    {"_foreach_abs_*", &foreach_in_place},
    {"_foreach_add*", &foreach_alike},
    {"_foreach_add_*", &foreach_in_place},
    {"_foreach_addcdiv*", &foreach_alike},
    {"_foreach_addcdiv_*", &foreach_in_place},
    {"_foreach_addcmul*", &foreach_alike},
    {"_foreach_addcmul_*", &foreach_in_place},
    {"_foreach_clamp_max*", &foreach_alike},
    {"_foreach_clamp_max_*", &foreach_in_place},
    {"_foreach_clamp_min*", &foreach_alike},
    {"_foreach_clamp_min_*", &foreach_in_place},
    {"_foreach_copy_*", &foreach_in_place},
    {"_foreach_div*", &foreach_alike},
    {"_foreach_div_*", &foreach_in_place},
    {"_foreach_exp*", &foreach_alike},
    {"_foreach_exp_*", &foreach_in_place},
    {"_foreach_lerp*", &foreach_alike},
    {"_foreach_lerp_*", &foreach_in_place},
    {"_foreach_maximum*", &foreach_alike},
    {"_foreach_maximum_*", &foreach_in_place},
    {"_foreach_minimum*", &foreach_alike},
    {"_foreach_minimum_*", &foreach_in_place},
    {"_foreach_mul*", &foreach_alike},
    {"_foreach_mul_*", &foreach_in_place},
    {"_foreach_neg*", &foreach_alike},
    {"_foreach_neg_*", &foreach_in_place},
    {"_foreach_norm*", &foreach_single_value},
    {"_foreach_pow.List", &foreach_alike},
    {"_foreach_pow.Scalar", &foreach_alike},
    {"_foreach_pow.ScalarList", &foreach_alike},
    {"_foreach_reciprocal*", &foreach_alike},
    {"_foreach_reciprocal_*", &foreach_in_place},
    {"_foreach_rsqrt*", &foreach_alike},
    {"_foreach_rsqrt_*", &foreach_in_place},
    {"_foreach_sign*", &foreach_alike},
    {"_foreach_sign_*", &foreach_in_place},
    {"_foreach_sqrt*", &foreach_alike},
    {"_foreach_sqrt_*", &foreach_in_place},
    {"_foreach_sub*", &foreach_alike},
    {"_foreach_sub_*", &foreach_in_place},
    {"_foreach_zero_*", &foreach_in_place},
    {"_fused_adagrad_*", &fused_optimizer},
    {"_fused_adam_*", &fused_optimizer},
    {"_fused_adamw_*", &fused_optimizer},
    {"_fused_sgd_*", &fused_optimizer},
    {"cat", &cat},
};

}  // namespace

std::span<const NamedRule> list_rules() { return kRules; }

}  // namespace torch_openreg::shapes
