// Tensors that look like those of the device, without their data.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <utility>
#include <vector>

namespace torch_openreg {

// Throws c10::Error if the tensor reaches beyond its storage: a kernel would
// read, or write, what is not there.
void check_extent(const at::Tensor& tensor);

// Turns the arguments of one call into tensors of another device with the same
// dtypes, sizes, strides and flags; those that share a storage do so there,
// too, and one tensor stays one. Single values of the host stay as they are.
// Not thread-safe.
class StandIns {
 public:
  // On Meta they have no memory, but addresses, so that checks for overlap see
  // what the CPU's would. On the CPU they have memory full of zeros; with
  // `ones`, of ones. Throws std::bad_alloc where that
  // would be more than kMaxBytes.
  StandIns(c10::DeviceType where, bool ones) : where_(where), ones_(ones) {}

  static constexpr size_t kMaxBytes = size_t{1} << 30;

  c10::IValue convert(const c10::IValue& value);

 private:
  at::Tensor convert(const at::Tensor& tensor);
  at::Tensor make(const at::Tensor& tensor);
  const c10::Storage& storage(const c10::Storage& real);

  const c10::DeviceType where_;
  const bool ones_;
  size_t bytes_ = 0;  // of memory
  std::vector<std::pair<c10::StorageImpl*, c10::Storage>> storages_;
  std::vector<std::pair<c10::TensorImpl*, at::Tensor>> tensors_;
};

}  // namespace torch_openreg
