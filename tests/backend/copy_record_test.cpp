// The copy's record: what is written is read, and nothing else is.
#include "backend/simulation/common/copy_record.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "backend/simulation/record/format.h"

namespace torch_openreg::test {

namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
// The places of a tensor's numbers, see CopyRecord.
constexpr size_t kDtype = 1;
constexpr size_t kFlags = 2;
constexpr size_t kDimensions = 3;
constexpr size_t kSizes = 4;
constexpr uint64_t kSettings = ~uint64_t{5};
constexpr int kLazy = record::kConjugate | record::kNegative;

CopyRecord example() {
  const at::Tensor dst = at::empty({2, 3}, at::dtype(at::kFloat));
  const at::Tensor src = at::empty({3, 2}, at::dtype(at::kInt)).t();
  return encode_copy(dst, src, kSettings);
}

bool decodes(const CopyRecord& record) {
  TensorRecord dst;
  TensorRecord src;
  uint64_t settings = 0;
  return decode_copy({record.data(), record.size()}, &dst, &src, &settings);
}

// The record with one number replaced.
CopyRecord with(size_t place, int64_t number) {
  CopyRecord record = example();
  record[place] = number;
  return record;
}

std::vector<int64_t> list(std::span<const int64_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(CopyRecordTest, HoldsBothTensors) {
  const CopyRecord record = example();
  TensorRecord dst;
  TensorRecord src;
  uint64_t settings = 0;
  ASSERT_TRUE(
      decode_copy({record.data(), record.size()}, &dst, &src, &settings));
  EXPECT_EQ(dst.dtype, at::kFloat);
  EXPECT_EQ(src.dtype, at::kInt);
  EXPECT_EQ(list(dst.sizes), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(list(dst.strides), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(list(src.sizes), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(list(src.strides), (std::vector<int64_t>{1, 2}));
  EXPECT_NE(dst.data, src.data);
  EXPECT_EQ(settings, kSettings);
}

TEST(CopyRecordTest, HoldsLazyBits) {
  const at::Tensor tensor = at::empty({2}, at::dtype(at::kComplexFloat));
  const CopyRecord record =
      encode_copy(tensor, tensor.conj()._neg_view(), kSettings);
  TensorRecord dst;
  TensorRecord src;
  uint64_t settings = 0;
  ASSERT_TRUE(
      decode_copy({record.data(), record.size()}, &dst, &src, &settings));
  EXPECT_EQ(dst.flags, 0);
  EXPECT_EQ(src.flags, kLazy);
}

TEST(CopyRecordTest, LeavesOutDimensionsOfSizeOne) {
  std::vector<int64_t> sizes(100, 1);
  sizes[50] = 7;
  const at::Tensor tensor = at::empty(sizes);
  const CopyRecord record = encode_copy(tensor, tensor, kSettings);
  TensorRecord dst;
  TensorRecord src;
  uint64_t settings = 0;
  ASSERT_TRUE(
      decode_copy({record.data(), record.size()}, &dst, &src, &settings));
  EXPECT_EQ(list(dst.sizes), std::vector<int64_t>{7});
}

TEST(CopyRecordTest, ATruncatedOrLongerListIsRefused) {
  CopyRecord record = example();
  ASSERT_TRUE(decodes(record));
  record.push_back(0);
  EXPECT_FALSE(decodes(record));
  while (!record.empty()) {
    record.pop_back();
    EXPECT_EQ(decodes(record), record.size() == example().size());
  }
}

TEST(CopyRecordTest, ImpossibleNumbersAreRefused) {
  EXPECT_FALSE(decodes(with(kDtype, -1)));
  EXPECT_FALSE(decodes(with(kDtype, int64_t{c10::NumScalarTypes} - 1)));
  EXPECT_FALSE(decodes(with(kFlags, 4)));
  EXPECT_FALSE(decodes(with(kFlags, -1)));
  EXPECT_FALSE(decodes(with(kDimensions, -1)));
  EXPECT_FALSE(decodes(with(kDimensions, 1)));
  EXPECT_FALSE(decodes(with(kDimensions, kHuge)));
  EXPECT_FALSE(decodes(with(kSizes, -2)));
  EXPECT_FALSE(decodes(with(kSizes, 4))) << "the sizes differ";
  EXPECT_FALSE(decodes(with(kSizes + 2, -1))) << "a negative stride";
}

TEST(CopyRecordTest, TheExtentIsFromTheFirstToTheLastElement) {
  const at::Tensor dst =
      at::empty_strided({2, 3}, {10, 2}, at::dtype(at::kFloat));
  const CopyRecord record = encode_copy(dst, at::empty({3}).expand({2, 3}), 0);
  TensorRecord to;
  TensorRecord from;
  uint64_t settings = 0;
  ASSERT_TRUE(
      decode_copy({record.data(), record.size()}, &to, &from, &settings));
  EXPECT_EQ(to.extent, 10 + 4 + 1);
  EXPECT_EQ(from.extent, 3);
}

TEST(CopyRecordTest, AnExtentThatOverflowsIsRefused) {
  EXPECT_TRUE(decodes(with(kSizes + 2, kHuge)));
  CopyRecord record = example();
  record[kSizes + 2] = kHuge;
  record[kSizes + 3] = kHuge;
  EXPECT_FALSE(decodes(record));
}

}  // namespace

}  // namespace torch_openreg::test
