// How the key of a call describes a number whose value is not part of it.
#pragma once

#include <bit>
#include <cstdint>

namespace torch_openreg::record {

// Operators don't look at a number's value to decide what their outputs look
// like, but they refuse some numbers: a probability above 1, a negative
// deviation, a lower bound above the upper one, an integer that the dtype can't
// hold. So a number's sign, its order of magnitude and whether it is larger
// than the number before it are part of the key, and a call that could be
// refused is of another kind than one that was good.
//
// Those of the numbers of one call, in their order. Not thread-safe.
class Magnitudes {
 public:
  uint32_t of(int64_t number) {
    const bool is_negative = number < 0;
    const auto bits = static_cast<uint64_t>(is_negative ? ~number : number);
    return order(static_cast<double>(number)) | (is_negative ? kNegative : 0U) |
           static_cast<uint32_t>(std::bit_width(bits));
  }

  // Sign and exponent, and whether the number is a power of two (so 1 is told
  // from what is a little more), zero or infinite.
  uint32_t of(double number) {
    constexpr unsigned kMantissaBits = 52;
    constexpr uint64_t kMantissa = (uint64_t{1} << kMantissaBits) - 1;
    const auto bits = std::bit_cast<uint64_t>(number);
    return order(number) | ((bits & kMantissa) == 0 ? kExact : 0U) |
           static_cast<uint32_t>(bits >> kMantissaBits);
  }

 private:
  static constexpr uint32_t kNegative = 1U << 11;  // as in a double
  static constexpr uint32_t kExact = 1U << 12;
  static constexpr uint32_t kLess = 1U << 13;
  static constexpr uint32_t kMore = 1U << 14;

  uint32_t order(double number) {
    const uint32_t result = number < last_   ? kLess
                            : number > last_ ? kMore
                                             : 0U;
    last_ = number;
    return result;
  }

  double last_ = 0;
};

}  // namespace torch_openreg::record
