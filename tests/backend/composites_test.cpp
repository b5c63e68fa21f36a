// Composites: what is taken apart is put together again, and parts that can't
// belong together are refused.
#include "backend/simulation/common/composites.h"

#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace torch_openreg::test {

namespace {

using record::Composite;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

at::Tensor nested() {
  return at::_nested_tensor_from_tensor_list(
      {at::ones({2, 3}), at::ones({1, 3})}, at::kFloat, at::kStrided, at::kCPU,
      false);
}

at::Tensor per_tensor() {
  return at::quantize_per_tensor(at::ones({2, 3}), 0.5, 1, at::kQUInt8);
}

at::Tensor per_channel() {
  return at::quantize_per_channel(at::ones({2, 3}), at::full({2}, 0.5),
                                  at::zeros({2}, at::kLong), 0, at::kQInt8);
}

// One of every kind.
std::vector<at::Tensor> examples() {
  const at::Tensor dense = at::eye(4);
  return {dense.to_sparse(),
          dense.to_sparse_csr(),
          dense.to_sparse_csc(),
          dense.to_sparse_bsr({2, 2}),
          dense.to_sparse_bsc({2, 2}),
          nested(),
          at::empty({2, 3}, at::dtype(at::kQUInt8)),
          per_tensor(),
          per_channel()};
}

TEST(CompositesTest, ComeBackWithTheSamePartsAndMemory) {
  unsigned kind = 0;
  for (const at::Tensor& tensor : examples()) {
    const auto parts = take_apart(tensor);
    ASSERT_TRUE(parts.has_value());
    EXPECT_EQ(static_cast<unsigned>(parts->kind), kind++);
    EXPECT_EQ(parts->values.size(), record::parts_of(parts->kind).size());
    check_shapes(*parts);
    const at::Tensor again = put_together(*parts);
    EXPECT_EQ(again.layout(), tensor.layout());
    EXPECT_EQ(again.is_nested(), tensor.is_nested());
    EXPECT_EQ(again.is_quantized(), tensor.is_quantized());
    EXPECT_EQ(again.scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(are_same(*parts, *take_apart(again)));
  }
  EXPECT_EQ(kind, static_cast<unsigned>(Composite::kLast) + 1);
}

TEST(CompositesTest, APlainTensorIsNone) {
  EXPECT_TRUE(is_plain(at::ones({2})));
  EXPECT_FALSE(take_apart(at::ones({2})).has_value());
}

TEST(CompositesTest, OtherMemoryIsNotTheSame) {
  for (const at::Tensor& tensor : examples()) {
    if (tensor.is_quantized()) continue;
    EXPECT_FALSE(are_same(*take_apart(tensor), *take_apart(tensor.clone())));
  }
}

TEST(CompositesTest, AssignedOnesHaveTheNewParts) {
  const at::Tensor other = at::full({4, 4}, 2.0);
  for (const at::Layout layout : {at::kSparse, at::kSparseCsr}) {
    at::Tensor tensor = at::eye(4).to_sparse(layout);
    const at::Tensor fresh = other.to_sparse(layout);
    assign(tensor, fresh);
    EXPECT_TRUE(are_same(*take_apart(tensor), *take_apart(fresh)));
  }
}

// Whether the tensor with one part replaced is refused.
bool is_refused(const at::Tensor& tensor, size_t place, c10::IValue part) {
  Parts parts = *take_apart(tensor);
  parts.values[place] = std::move(part);
  try {
    check_shapes(parts);
    put_together(parts);
    return false;
  } catch (const c10::Error&) {
    return true;
  }
}

using Numbers = std::vector<int64_t>;

TEST(BadCompositesTest, SparseOnesOfShapesThatDoNotMatch) {
  const at::Tensor coo = at::eye(4).to_sparse();
  EXPECT_TRUE(is_refused(coo, 0, Numbers{4}));
  EXPECT_TRUE(is_refused(coo, 2, at::zeros({2}, at::kLong)));
  EXPECT_TRUE(is_refused(coo, 2, at::zeros({2, 5}, at::kLong)));
  EXPECT_TRUE(is_refused(coo, 3, at::zeros({})));
  EXPECT_TRUE(is_refused(coo, 3, at::zeros({4, 2})));
}

TEST(BadCompositesTest, CompressedOnesOfShapesThatDoNotMatch) {
  for (const at::Tensor& tensor :
       {at::eye(4).to_sparse_csr(), at::eye(4).to_sparse_csc()}) {
    EXPECT_TRUE(is_refused(tensor, 0, Numbers{4}));
    EXPECT_TRUE(is_refused(tensor, 0, Numbers{3, 3}));
    EXPECT_TRUE(is_refused(tensor, 1, at::zeros({4}, at::kLong)));
    EXPECT_TRUE(is_refused(tensor, 1, at::zeros({}, at::kLong)));
    EXPECT_TRUE(is_refused(tensor, 2, at::zeros({3}, at::kLong)));
    EXPECT_TRUE(is_refused(tensor, 2, at::zeros({4}, at::kInt)));
    EXPECT_TRUE(is_refused(tensor, 3, at::zeros({5})));
    EXPECT_TRUE(is_refused(tensor, 3, at::zeros({})));
  }
  const at::Tensor bsr = at::eye(4).to_sparse_bsr({2, 2});
  EXPECT_TRUE(is_refused(bsr, 3, at::zeros({2})));
  EXPECT_TRUE(is_refused(bsr, 3, at::zeros({2, 1, 2})));
}

TEST(BadCompositesTest, NestedOnesBeyondTheirBuffer) {
  EXPECT_TRUE(is_refused(nested(), 0, at::ones({8})));
  EXPECT_TRUE(is_refused(nested(), 1, int64_t{3}));
  EXPECT_TRUE(is_refused(nested(), 1, int64_t{-2}));
  EXPECT_TRUE(is_refused(nested(), 2, Numbers{2, 3, 2, 3}));
  EXPECT_TRUE(is_refused(nested(), 2, Numbers{2, 3, -1, 3}));
  EXPECT_TRUE(is_refused(nested(), 3, Numbers{3, 1, kHuge, kHuge}));
  EXPECT_TRUE(is_refused(nested(), 4, Numbers{0, kHuge}));
  EXPECT_TRUE(is_refused(nested(), 4, Numbers{0, -1}));
  EXPECT_TRUE(is_refused(nested(), 4, Numbers{0}));
}

TEST(BadCompositesTest, QuantizedOnesBeyondTheirMemory) {
  for (const at::Tensor& tensor : {per_tensor(), per_channel()}) {
    EXPECT_TRUE(is_refused(tensor, 0, at::empty({5}, at::kByte)));
    EXPECT_TRUE(is_refused(tensor, 1, Numbers{3, 3}));
    EXPECT_TRUE(is_refused(tensor, 1, Numbers{2}));
    EXPECT_TRUE(is_refused(tensor, 2, Numbers{kHuge, kHuge}));
    EXPECT_TRUE(is_refused(tensor, 3, int64_t{1}));
    EXPECT_TRUE(is_refused(tensor, 3, int64_t{-1}));
    EXPECT_TRUE(is_refused(tensor, 4, static_cast<int64_t>(at::kFloat)));
    EXPECT_TRUE(is_refused(tensor, 4, static_cast<int64_t>(at::kQInt32)));
    EXPECT_TRUE(is_refused(tensor, 4, kHuge));
  }
}

}  // namespace

}  // namespace torch_openreg::test
