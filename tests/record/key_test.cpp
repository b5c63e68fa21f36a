// Which calls are of one kind: they have the same key.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "support/samples.h"

namespace torch_openreg::record::test {

namespace {

using Add = std::function<void(Writer&)>;

constexpr std::array<int64_t, 2> kSizes{4, 3};
constexpr std::array<int64_t, 2> kStrides{3, 1};
constexpr std::array<int64_t, 2> kTransposed{1, 4};

Record key(const Add& add, bool values_apart = false) {
  Writer writer(values_apart);
  add(writer);
  return {writer.key().begin(), writer.key().end()};
}

// Whether the calls are of one kind; with values apart or in place.
bool same_apart(const Add& a, const Add& b) {
  return key(a, true) == key(b, true);
}
bool same_in_place(const Add& a, const Add& b) { return key(a) == key(b); }

TensorShape shape() {
  return {.dtype = 6,
          .flags = 0,
          .offset = 0,
          .sizes = kSizes,
          .strides = kStrides};
}

Add tensor(const TensorShape& shape, uint64_t address = 0x1000,
           uint64_t bytes = 64) {
  return [=](Writer& writer) {
    writer.add_tensor(shape, writer.add_storage(address, bytes));
  };
}

Add both(const Add& a, const Add& b) {
  return [=](Writer& writer) {
    a(writer);
    b(writer);
  };
}

void expect_values_matter_in_place_alone(const Add& a, const Add& b) {
  EXPECT_TRUE(same_apart(a, b));
  EXPECT_FALSE(same_in_place(a, b));
  EXPECT_TRUE(same_in_place(a, a));
}

void expect_always_differ(const Add& a, const Add& b) {
  EXPECT_FALSE(same_apart(a, b));
  EXPECT_FALSE(same_in_place(a, b));
}

TEST(KeyTest, AddressesAndBytesDoNotMatter) {
  EXPECT_TRUE(same_in_place(tensor(shape()), tensor(shape(), 0x2000, 128)));
}

TEST(KeyTest, WhatATensorIsLikeMatters) {
  TensorShape other = shape();
  other.dtype = 7;
  expect_always_differ(tensor(shape()), tensor(other));
  other = shape();
  other.flags = kConjugate;
  expect_always_differ(tensor(shape()), tensor(other));
  other = shape();
  other.strides = kTransposed;
  expect_always_differ(tensor(shape()), tensor(other));
  other = shape();
  other.sizes = std::span(kSizes).first(1);
  other.strides = std::span(kStrides).first(1);
  expect_always_differ(tensor(shape()), tensor(other));
}

TEST(KeyTest, WhichTensorsShareAStorageMatters) {
  const Add a = tensor(shape(), 0x1000);
  const Add b = tensor(shape(), 0x2000);
  const Add c = tensor(shape(), 0x3000);
  expect_always_differ(both(a, a), both(a, b));
  EXPECT_TRUE(same_in_place(both(a, b), both(b, c)));
  EXPECT_TRUE(same_in_place(both(a, a), both(c, c)));
  EXPECT_FALSE(same_in_place(both(both(a, b), a), both(both(a, b), b)));
}

TEST(KeyTest, OffsetsAreBesideIt) {
  TensorShape other = shape();
  other.offset = 4;
  EXPECT_TRUE(same_in_place(tensor(shape()), tensor(other)));
  Writer writer(false);
  tensor(shape())(writer);
  EXPECT_FALSE(writer.has_shared_storage());
  tensor(other)(writer);
  EXPECT_TRUE(writer.has_shared_storage());
  EXPECT_EQ(Record(writer.offsets().begin(), writer.offsets().end()),
            (Record{0, 4}));
}

TEST(KeyTest, TensorsWithoutMemoryShareNothing) {
  Writer writer(false);
  EXPECT_EQ(writer.add_storage(0, 0), 0);
  EXPECT_EQ(writer.add_storage(0, 0), 1);
  EXPECT_FALSE(writer.has_shared_storage());
}

TEST(KeyTest, AStorageIsAsLargeAsTheLargestAtItsAddress) {
  Writer writer(false);
  EXPECT_EQ(writer.add_storage(0x1000, 8), 0);
  EXPECT_EQ(writer.add_storage(0x2000, 8), 1);
  EXPECT_EQ(writer.add_storage(0x1000, 64), 0);
  EXPECT_EQ(writer.add_storage(0x1000, 16), 0);
  const Record record = finish(writer, 0);
  EXPECT_EQ(record[storages_at(record) + 1], 64);
  EXPECT_EQ(record[storages_at(record) + 3], 8);
}

TEST(KeyTest, ValuesMatterUnlessTheyAreApart) {
  expect_values_matter_in_place_alone([](Writer& w) { w.add_float(0.1); },
                                      [](Writer& w) { w.add_float(0.2); });
  expect_values_matter_in_place_alone([](Writer& w) { w.add_complex(1, 2); },
                                      [](Writer& w) { w.add_complex(1, 3); });
  expect_values_matter_in_place_alone([](Writer& w) { w.add_generator(1); },
                                      [](Writer& w) { w.add_generator(2); });
  expect_values_matter_in_place_alone(
      [](Writer& w) { w.add_host_value(6, 0, 1, 0); },
      [](Writer& w) { w.add_host_value(6, 0, 1, 1); });
  expect_values_matter_in_place_alone(
      [](Writer& w) { w.add_floats(std::array<double, 2>{1, 2}); },
      [](Writer& w) { w.add_floats(std::array<double, 2>{1, 3}); });
}

TEST(KeyTest, WhatDecidesShapesAlwaysMatters) {
  expect_always_differ([](Writer& w) { w.add_int(1); },
                       [](Writer& w) { w.add_int(2); });
  expect_always_differ([](Writer& w) { w.add_bool(true); },
                       [](Writer& w) { w.add_bool(false); });
  expect_always_differ([](Writer& w) { w.add_string("same"); },
                       [](Writer& w) { w.add_string("full"); });
  expect_always_differ(
      [](Writer& w) { w.add_ints(std::array<int64_t, 1>{1}); },
      [](Writer& w) { w.add_ints(std::array<int64_t, 1>{2}); });
  expect_always_differ([](Writer& w) { w.add_host_value(6, 0, 0, 0); },
                       [](Writer& w) { w.add_host_value(7, 0, 0, 0); });
  expect_always_differ(
      [](Writer& w) { w.add_host_value(6, 0, 0, 0); },
      [](Writer& w) { w.add_host_value(6, kWrappedNumber, 0, 0); });
}

TEST(KeyTest, LengthsAlwaysMatter) {
  expect_always_differ(
      [](Writer& w) { w.add_floats(std::array<double, 1>{}); },
      [](Writer& w) { w.add_floats(std::array<double, 2>{}); });
  expect_always_differ([](Writer& w) { w.add_string("a"); },
                       [](Writer& w) { w.add_string({"a\0", 2}); });
  expect_always_differ(
      [](Writer& w) {
        w.begin_list(Tag::kTensorList, 2);
        for (int i = 0; i < 3; ++i) w.add_undefined();
      },
      [](Writer& w) {
        w.begin_list(Tag::kTensorList, 3);
        for (int i = 0; i < 3; ++i) w.add_undefined();
      });
}

TEST(KeyTest, TypesOfScalarsAlwaysMatter) {
  const std::vector<Add> ones{[](Writer& w) { w.add_int(1); },
                              [](Writer& w) { w.add_float(1); },
                              [](Writer& w) { w.add_bool(true); },
                              [](Writer& w) { w.add_complex(1, 0); },
                              [](Writer& w) { w.add_host_value(4, 0, 1, 0); },
                              [](Writer& w) { w.add_none(); },
                              [](Writer& w) { w.add_undefined(); }};
  for (size_t i = 0; i < ones.size(); ++i) {
    for (size_t j = 0; j < i; ++j) expect_always_differ(ones[i], ones[j]);
  }
}

}  // namespace

}  // namespace torch_openreg::record::test
