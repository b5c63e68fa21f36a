// How much memory a tensor needs, by arithmetic that cannot overflow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backend/simulation/record/reader.h"

namespace torch_openreg::record::test {

__extension__ using Wide = unsigned __int128;

// Whether the tensor stays within `bytes`: what Reader::fits() must say.
inline bool fits_exactly(const TensorView& tensor, uint64_t itemsize,
                         uint64_t bytes) {
  constexpr Wide kTooMuch = Wide{1} << 64;
  Wide count = 1;
  Wide last = static_cast<Wide>(tensor.offset);
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    const auto size = static_cast<Wide>(tensor.sizes[i]);
    if (size == 0) return true;
    // Both factors are below 2^64, and what is too much stays so.
    count = std::min(count * size, kTooMuch);
    last = std::min(last + (size - 1) * static_cast<Wide>(tensor.strides[i]),
                    kTooMuch);
  }
  return count <= static_cast<Wide>(std::numeric_limits<int64_t>::max()) &&
         (last + 1) * itemsize <= bytes;
}

}  // namespace torch_openreg::record::test
