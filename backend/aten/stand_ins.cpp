#include "backend/aten/stand_ins.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <new>
#include <optional>

#include "backend/executor/clean_dispatch.h"
#include "backend/executor/lazy_flags.h"

namespace torch_openreg {

namespace {

// Pages of zeros that nobody writes cost no memory.
c10::DataPtr zeros(size_t bytes) {
  if (bytes == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
  void* const data = std::calloc(bytes, 1);
  if (data == nullptr) throw std::bad_alloc();
  return {data, data, &std::free, c10::Device(c10::DeviceType::CPU)};
}

c10::DispatchKey key_of(c10::DeviceType where) {
  return where == c10::DeviceType::Meta ? c10::DispatchKey::Meta
                                        : c10::DispatchKey::CPU;
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
  if (value.isDevice()) return c10::Device(where_);
  if (value.isGenerator()) return at::detail::createCPUGenerator();
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
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage(tensor.storage())),
      c10::DispatchKeySet(key_of(where_)), tensor.dtype());
  c10::TensorImpl& impl = *result.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                             tensor.storage_offset());
  set_lazy_flags(result, lazy_flags(tensor));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl.set_wrapped_number(true);
  }
  if (ones_) {
    const CleanDispatch clean;
    result.fill_(1);
  }
  return result;
}

const c10::Storage& StandIns::storage(const c10::Storage& real) {
  for (const auto& [known, stand_in] : storages_) {
    if (known == real.unsafeGetStorageImpl()) return stand_in;
  }
  c10::StorageImpl* const impl = real.unsafeGetStorageImpl();
  bytes_ += impl->nbytes();
  const bool has_memory = where_ != c10::DeviceType::Meta;
  if (has_memory && bytes_ > kMaxBytes) throw std::bad_alloc();
  c10::DataPtr data = has_memory ? zeros(impl->nbytes())
                                 : c10::DataPtr(const_cast<void*>(impl->data()),
                                                c10::Device(where_));
  storages_.emplace_back(
      impl, c10::make_intrusive<c10::StorageImpl>(
                c10::StorageImpl::use_byte_size_t(), impl->nbytes(),
                std::move(data), c10::GetAllocator(where_),
                /*resizable=*/true));
  return storages_.back().second;
}

}  // namespace torch_openreg
