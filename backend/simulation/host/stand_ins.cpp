#include "backend/simulation/host/stand_ins.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/DimVector.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <optional>

#include "backend/pytorch/clean_dispatch.h"
#include "backend/simulation/common/lazy_flags.h"

namespace torch_openreg {

namespace {

at::DimVector small_sizes(at::IntArrayRef sizes) {
  at::DimVector result(sizes);
  for (int64_t& size : result) size = std::min(size, StandIns::kSmallSize);
  return result;
}

// Strides for `sizes` in the order of the tensor's. Where its elements lie side
// by side, so do these; where it leaves a gap, so do these; where it repeats an
// element, so do these.
at::DimVector small_strides(const at::Tensor& tensor, at::IntArrayRef sizes) {
  c10::SmallVector<size_t, 8> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  const at::IntArrayRef strides = tensor.strides();
  std::ranges::stable_sort(order, {}, [&](size_t i) { return strides[i]; });
  at::DimVector result(sizes.size(), 0);
  int64_t dense = 1;        // the stride of the tensor's next dimension
  int64_t small_dense = 1;  // and of the result's, if there is no gap
  for (const size_t i : order) {
    if (strides[i] == 0) continue;
    if (tensor.size(i) > 1 && strides[i] > dense) ++small_dense;
    result[i] = small_dense;
    small_dense *= std::max<int64_t>(sizes[i], 1);
    if (tensor.size(i) > 1) dense = strides[i] * tensor.size(i);
  }
  return result;
}

}  // namespace

void check_extent(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const size_t needed = at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.itemsize(),
      static_cast<size_t>(tensor.storage_offset()));
  TORCH_CHECK(needed <= tensor.storage().nbytes(), "a tensor of sizes ",
              tensor.sizes(), " needs ", needed,
              " bytes, and its storage has only ", tensor.storage().nbytes());
}

c10::IValue StandIns::convert(const c10::IValue& value) {
  if (value.isTensor()) return convert(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(convert(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor.has_value() ? std::optional(convert(*tensor))
                                        : std::nullopt);
    }
    return list;
  }
  if (value.isDevice()) return c10::Device(device_type());
  if (value.isGenerator()) {  // Meta has none
    return are_meta() ? c10::IValue() : at::detail::createCPUGenerator();
  }
  return value;
}

at::Tensor StandIns::convert(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return tensor;
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  for (const auto& [known, stand_in] : tensors_) {
    if (known == impl) return stand_in;
  }
  tensors_.emplace_back(impl, make(tensor));
  return tensors_.back().second;
}

at::Tensor StandIns::make(const at::Tensor& tensor) {
  check_extent(tensor);
  at::DimVector sizes(tensor.sizes());
  at::DimVector strides(tensor.strides());
  if (are_small()) {
    sizes = small_sizes(tensor.sizes());
    strides = small_strides(tensor, sizes);
  }
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      are_small() ? new_storage(at::detail::computeStorageNbytes(
                        sizes, strides, tensor.itemsize()))
                  : storage(tensor.storage()),
      c10::DispatchKeySet(are_meta() ? c10::DispatchKey::Meta
                                     : c10::DispatchKey::CPU),
      tensor.dtype());
  c10::TensorImpl& impl = *result.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(sizes, strides,
                             are_small() ? 0 : tensor.storage_offset());
  set_lazy_flags(result, lazy_flags(tensor));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl.set_wrapped_number(true);
  }
  if (kind_ == Kind::kOnes || kind_ == Kind::kSmallOnes) {
    const CleanDispatch clean;
    result.fill_(1);
  }
  return result;
}

c10::Storage StandIns::new_storage(size_t bytes) {
  if (are_meta()) return new_storage(bytes, {nullptr, device_type()});
  bytes_ += bytes;
  if (bytes_ > kMaxBytes) throw std::bad_alloc();
  if (!memory_.has_value()) memory_.emplace();
  return new_storage(bytes, memory_->allocate(bytes));
}

c10::Storage StandIns::new_storage(size_t bytes, c10::DataPtr data) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
      c10::GetAllocator(device_type()), /*resizable=*/true);
}

c10::Storage StandIns::storage(const c10::Storage& real) {
  c10::StorageImpl* const impl = real.unsafeGetStorageImpl();
  for (const auto& [known, stand_in] : storages_) {
    if (known == impl) return stand_in;
  }
  storages_.emplace_back(
      impl, kind_ == Kind::kMeta
                ? new_storage(impl->nbytes(),
                              {const_cast<void*>(impl->data()), device_type()})
                : new_storage(impl->nbytes()));
  return storages_.back().second;
}

}  // namespace torch_openreg
