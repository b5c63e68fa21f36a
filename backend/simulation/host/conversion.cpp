// Which dtypes a copy can convert. The error appears at the call, and not where
// the copy runs: each combination is tried once.

#include <ATen/EmptyTensor.h>
#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstring>

#include "backend/pytorch/clean_dispatch.h"
#include "backend/pytorch/copy_values.h"
#include "backend/pytorch/tensor_kinds.h"
#include "backend/seam.h"

namespace torch_openreg {

namespace {

constexpr size_t kTypes = c10::NumScalarTypes;

size_t index_of(const at::Tensor& dst, const at::Tensor& src) {
  const size_t types = static_cast<size_t>(dst.scalar_type()) * kTypes +
                       static_cast<size_t>(src.scalar_type());
  return types * 4 + (dst.is_conj() != src.is_conj() ? 1 : 0) +
         (dst.is_neg() != src.is_neg() ? 2 : 0);
}

// One element, zero, on the host.
at::Tensor sample_of(const at::Tensor& tensor) {
  at::Tensor sample = at::detail::empty_cpu({1}, tensor.scalar_type());
  std::memset(sample.mutable_data_ptr(), 0, sample.nbytes());
  set_lazy_like(sample, tensor);
  return sample;
}

void try_on_host(const at::Tensor& dst, const at::Tensor& src) {
  const CleanDispatch clean;
  const at::DisableRecordFunctionGuard no_profiling;
  copy_values(sample_of(dst), sample_of(src));
}

}  // namespace

void check_convertible(const at::Tensor& dst, const at::Tensor& src) {
  static std::array<std::atomic<bool>, kTypes * kTypes * 4> known{};
  std::atomic<bool>& is_known = known.at(index_of(dst, src));
  if (C10_LIKELY(is_known.load(std::memory_order_relaxed))) return;
  try_on_host(dst, src);
  is_known.store(true, std::memory_order_relaxed);
}

}  // namespace torch_openreg
