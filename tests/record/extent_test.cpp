// Whether a tensor lies within its storage.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <vector>

#include "backend/simulation/record/reader.h"
#include "support/environment.h"
#include "support/extent.h"
#include "support/samples.h"

namespace torch_openreg::record::test {

namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// Whether a tensor fits into a storage of so many bytes.
bool fits(const std::vector<int64_t>& sizes,
          const std::vector<int64_t>& strides, int64_t offset,
          uint64_t itemsize, uint64_t bytes) {
  Writer writer(false);
  writer.add_tensor({.dtype = 6,
                     .flags = 0,
                     .offset = offset,
                     .sizes = sizes,
                     .strides = strides},
                    writer.add_storage(0x1000, bytes));
  const Record record = finish(writer, 1);
  Reader reader(record);
  Argument argument;
  EXPECT_TRUE(reader.open());
  EXPECT_TRUE(reader.next_argument(&argument));
  const bool result = reader.fits(argument.tensor, itemsize);
  EXPECT_EQ(result, fits_exactly(argument.tensor, itemsize, bytes));
  return result;
}

TEST(ExtentTest, IsFromTheStorageStartToTheLastElement) {
  EXPECT_TRUE(fits({2, 3}, {10, 2}, 5, 4, 4 * (5 + 10 + 4 + 1)));
  EXPECT_FALSE(fits({2, 3}, {10, 2}, 5, 4, 4 * (5 + 10 + 4 + 1) - 1));
}

TEST(ExtentTest, OfAScalarIsOneElement) {
  EXPECT_TRUE(fits({}, {}, 0, 8, 8));
  EXPECT_FALSE(fits({}, {}, 0, 8, 7));
  EXPECT_FALSE(fits({}, {}, 1, 8, 8));
  EXPECT_FALSE(fits({}, {}, kHuge, 8, kHuge));
}

TEST(ExtentTest, OfAnExpandedTensorIsThatOfItsElements) {
  EXPECT_TRUE(fits({1000, 1000}, {0, 0}, 0, 4, 4));
  EXPECT_TRUE(fits({1, 1}, {kHuge, kHuge}, 0, 4, 4));
}

TEST(ExtentTest, OfNothingIsNothingWhereverItIs) {
  EXPECT_TRUE(fits({0}, {1}, 0, 4, 0));
  EXPECT_TRUE(fits({0}, {1}, kHuge, 4, 0));
  // As torch.empty(2**40, 0, 2**40) has them.
  const int64_t large = int64_t{1} << 40;
  EXPECT_TRUE(fits({large, 0, large}, {large, large, 1}, 0, 4, 0));
  EXPECT_TRUE(fits({kHuge, kHuge, 0}, {kHuge, kHuge, kHuge}, 0, 4, 0));
}

TEST(ExtentTest, ThatOverflowsFitsNowhere) {
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(fits({kHuge, 2}, {2, kHuge}, 0, 1, kAll));  // the sum
  EXPECT_FALSE(fits({kHuge}, {kHuge}, 0, 1, kAll));        // a product
  EXPECT_FALSE(fits({3, 2}, {kHuge, 1}, 1, 1, kAll));      // the last element
  EXPECT_FALSE(fits({}, {}, kHuge, 16, kAll));             // the bytes
  EXPECT_TRUE(fits({2}, {kHuge}, kHuge, 1, kAll));         // 2^64 - 1
  EXPECT_FALSE(fits({2}, {kHuge}, kHuge, 1, kAll - 1));
  EXPECT_FALSE(fits({2, 2}, {kHuge, 1}, kHuge, 1, kAll));  // 2^64
}

TEST(ExtentTest, OfMoreElementsThanCanBeCountedFitsNowhere) {
  EXPECT_TRUE(fits({kHuge}, {0}, 0, 4, 4));
  EXPECT_FALSE(fits({kHuge, 2}, {0, 0}, 0, 4, 4));
  const int64_t large = int64_t{1} << 32;
  EXPECT_FALSE(fits({large, large}, {0, 0}, 0, 4, 4));
  EXPECT_FALSE(fits({large, large, large}, {0, 0, 0}, 0, 4, 4));
}

TEST(ExtentTest, AgreesWithExactArithmetic) {
  std::mt19937_64 random(fuzz_seed());
  const auto number = [&random] {
    const uint64_t value = random() >> 1;
    return static_cast<int64_t>(value >> random() % 64);
  };
  size_t count = 0;
  constexpr size_t kTensors = 20'000;
  for (size_t i = 0; i < kTensors; ++i) {
    std::vector<int64_t> sizes(random() % 4);
    std::vector<int64_t> strides(sizes.size());
    for (int64_t& size : sizes) size = number();
    for (int64_t& stride : strides) stride = number();
    const uint64_t itemsize = uint64_t{1} << random() % 5;
    const uint64_t bytes = random() >> random() % 64;
    if (fits(sizes, strides, number(), itemsize, bytes)) ++count;
    ASSERT_FALSE(HasFailure()) << "OPENREG_FUZZ_SEED=" << fuzz_seed();
  }
  EXPECT_GT(count, kTensors / 20);
  EXPECT_LT(count, kTensors * 19 / 20);
}

}  // namespace

}  // namespace torch_openreg::record::test
