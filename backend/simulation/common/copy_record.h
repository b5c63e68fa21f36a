// The arguments of the executor's copy: two tensors as plain numbers, written
// by the backend and read on the device's side, which trusts nothing in them. A
// launch record takes longer: see ARCHITECTURE.md. Flags, limits and the rule
// for a tensor's extent are those of the launch record.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <span>

namespace torch_openreg {

// A tensor without its storage's owner. `data` is a device address or pinned
// memory.
struct TensorRecord {
  int64_t data = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  uint8_t flags = 0;    // record::kConjugate, record::kNegative
  uint64_t extent = 0;  // in elements
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};

// A flat list of numbers: of each tensor data, dtype, flags, dimensions (those
// of size 1 are left out), sizes, strides; the destination first. At the end
// the settings that it runs under (see simulation/common/settings.h).
using CopyRecord = c10::SmallVector<int64_t, 25>;

CopyRecord encode_copy(const at::Tensor& dst, const at::Tensor& src,
                       uint64_t settings);

// Returns false for a list that no encode_copy has written: too short or too
// long, too many dimensions, a tensor without an extent, sizes that differ, an
// unknown dtype or flag. The spans point into `words`.
bool decode_copy(std::span<const int64_t> words, TensorRecord* dst,
                 TensorRecord* src, uint64_t* settings);

}  // namespace torch_openreg
