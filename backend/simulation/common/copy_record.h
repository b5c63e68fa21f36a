// The arguments of the executor's copy: two tensors as plain numbers, written
// by the backend and read on the device's side, which trusts nothing in them.
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <span>

namespace torch_openreg {

// A tensor without its storage's owner. `data` is a device address or pinned
// memory.
struct TensorRecord {
  enum Flags : int64_t { kConjugate = 1, kNegative = 2 };

  int64_t data = 0;
  int64_t dtype = 0;
  int64_t flags = 0;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};

// A flat list of numbers: of each tensor data, dtype, flags, dimensions (those
// of size 1 are left out), sizes, strides; the destination first. At the end
// the settings that it runs under (see simulation/common/settings.h).
using CopyRecord = c10::SmallVector<int64_t, 25>;

CopyRecord encode_copy(const at::TensorBase& dst, const at::TensorBase& src,
                       uint64_t settings);

// Returns false for a list that no encode_copy has written: too short or too
// long, too many dimensions, a negative size or stride, sizes that differ, an
// unknown dtype. The spans point into `words`.
bool decode_copy(std::span<const int64_t> words, TensorRecord* dst,
                 TensorRecord* src, uint64_t* settings);

// The bytes from the first to the last element. Returns false on overflow.
bool extent_of(const TensorRecord& tensor, size_t itemsize, size_t* bytes);

}  // namespace torch_openreg
