// Tensors that look like those of the device, without their data.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <utility>
#include <vector>

#include "backend/simulation/host/zero_memory.h"

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
  enum class Kind {
    // Without memory, but with addresses, so that checks for overlap see what
    // the CPU's would.
    kMeta,
    // The CPU's, full of zeros, or of ones. Throws std::bad_alloc where that
    // would be more than kMaxBytes.
    kZeros,
    kOnes,
    // The CPU's, full of zeros or ones, with no size above kSmallSize. Sizes
    // that are
    // equal stay equal, and so does the order of the strides. Each tensor has a
    // storage of its own.
    kSmall,
    kSmallOnes,
    // The same without memory.
    kSmallMeta,
  };
  explicit StandIns(Kind kind) : kind_(kind) {}

  bool are_small() const {
    return kind_ == Kind::kSmall || kind_ == Kind::kSmallOnes ||
           kind_ == Kind::kSmallMeta;
  }

  static constexpr size_t kMaxBytes = size_t{1} << 30;
  static constexpr int64_t kSmallSize = 8;

  c10::IValue convert(const c10::IValue& value);

 private:
  at::Tensor convert(const at::Tensor& tensor);
  at::Tensor make(const at::Tensor& tensor);
  c10::Storage storage(const c10::Storage& real);
  c10::Storage new_storage(size_t bytes);
  c10::Storage new_storage(size_t bytes, c10::DataPtr data);
  bool are_meta() const {
    return kind_ == Kind::kMeta || kind_ == Kind::kSmallMeta;
  }
  c10::DeviceType device_type() const {
    return are_meta() ? c10::DeviceType::Meta : c10::DeviceType::CPU;
  }

  const Kind kind_;
  size_t bytes_ = 0;                  // of memory
  std::optional<ZeroMemory> memory_;  // outlives the tensors
  std::vector<std::pair<c10::StorageImpl*, c10::Storage>> storages_;
  std::vector<std::pair<c10::TensorImpl*, at::Tensor>> tensors_;
};

}  // namespace torch_openreg
