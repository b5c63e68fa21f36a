// How far a tensor reaches: the one rule for whoever reads sizes and strides
// that somebody else has written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace torch_openreg::record {

// How many elements lie from the first one of a tensor to its last, both
// included: none if it has none, whatever its other sizes. Nothing for one that
// cannot be: negative sizes or strides, elements that int64_t can't count (an
// expanded tensor takes little room and may still have too many), an overflow.
// There are as many strides as sizes.
inline std::optional<uint64_t> extent_of(std::span<const int64_t> sizes,
                                         std::span<const int64_t> strides) {
  const auto is_negative = [](int64_t number) { return number < 0; };
  if (std::ranges::any_of(sizes, is_negative) ||
      std::ranges::any_of(strides, is_negative)) {
    return std::nullopt;
  }
  // First of all: what is empty may have sizes that overflow below.
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  uint64_t count = 1;
  uint64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto size = static_cast<uint64_t>(sizes[i]);
    uint64_t step = 0;
    if (__builtin_mul_overflow(count, size, &count) ||
        __builtin_mul_overflow(size - 1, static_cast<uint64_t>(strides[i]),
                               &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  uint64_t extent = 0;
  if (count > uint64_t{std::numeric_limits<int64_t>::max()} ||
      __builtin_add_overflow(last, uint64_t{1}, &extent)) {
    return std::nullopt;
  }
  return extent;
}

// Whether so many elements of `itemsize` bytes, from the one at `offset` on,
// lie within `bytes` bytes. None do wherever they begin, but not before the
// start.
inline bool lies_within(uint64_t extent, int64_t offset, uint64_t itemsize,
                        uint64_t bytes) {
  if (offset < 0) return false;
  if (extent == 0) return true;
  uint64_t end = 0;
  return !__builtin_add_overflow(static_cast<uint64_t>(offset), extent, &end) &&
         !__builtin_mul_overflow(end, itemsize, &end) && end <= bytes;
}

}  // namespace torch_openreg::record
