// Which calls are of one kind: they have the same key. Calls that differ only
// in sizes and strides have the same signature.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
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

Record signature(const Add& add, bool values_apart = false,
                 bool with_numbers = true) {
  Writer writer(values_apart);
  add(writer);
  Words words;
  writer.write_signature(with_numbers, &words);
  return {words.view().begin(), words.view().end()};
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

TEST(KeyTest, OnlyTheMagnitudeOfANumberThatIsApartMatters) {
  const auto number = [](auto value) {
    return [value](Writer& w) { w.add_number(value); };
  };
  expect_values_matter_in_place_alone(number(0.6), number(0.9));
  expect_values_matter_in_place_alone(number(int64_t{5}), number(int64_t{7}));
  expect_always_differ(number(0.6), number(1.0));
  expect_always_differ(number(1.0), number(1.5));
  expect_always_differ(number(0.0), number(1e-310));
  expect_always_differ(number(0.6), number(-0.6));
  expect_always_differ(number(double{INFINITY}), number(double{NAN}));
  expect_always_differ(number(int64_t{0}), number(int64_t{1}));
  expect_always_differ(number(int64_t{5}), number(int64_t{-5}));
  expect_always_differ(number(int64_t{127}), number(int64_t{128}));
  expect_always_differ(number(int64_t{-128}), number(int64_t{-129}));
  expect_always_differ(number(int64_t{1}), number(1.0));
}

TEST(KeyTest, WhichOfTwoNumbersIsLargerMatters) {
  const auto bounds = [](double low, double high) {
    return [=](Writer& w) {
      w.add_number(low);
      w.add_number(high);
    };
  };
  expect_values_matter_in_place_alone(bounds(0.6, 0.9), bounds(0.7, 0.8));
  expect_always_differ(bounds(0.6, 0.9), bounds(0.9, 0.6));
  expect_always_differ(bounds(0.6, 0.9), bounds(0.6, 0.6));
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

TEST(SignatureTest, SizesAndStridesDoNotMatter) {
  TensorShape other = shape();
  other.sizes = kTransposed;
  other.strides = kSizes;
  EXPECT_EQ(signature(tensor(shape())), signature(tensor(other)));
  EXPECT_NE(key(tensor(shape())), key(tensor(other)));
}

TEST(SignatureTest, TheRestOfATensorMatters) {
  TensorShape other = shape();
  other.dtype = 7;
  EXPECT_NE(signature(tensor(shape())), signature(tensor(other)));
  other = shape();
  other.flags = kConjugate;
  EXPECT_NE(signature(tensor(shape())), signature(tensor(other)));
  other = shape();
  other.sizes = std::span(kSizes).first(1);
  other.strides = std::span(kStrides).first(1);
  EXPECT_NE(signature(tensor(shape())), signature(tensor(other)));
  const Add a = tensor(shape(), 0x1000);
  const Add b = tensor(shape(), 0x2000);
  EXPECT_NE(signature(both(a, a)), signature(both(a, b)));
}

TEST(SignatureTest, NumbersMayBeLeftOut) {
  const Add one = [](Writer& w) {
    w.add_int(1);
    w.add_ints(kSizes);
    w.add_bool(true);
  };
  const Add other = [](Writer& w) {
    w.add_int(2);
    w.add_ints(kStrides);
    w.add_bool(true);
  };
  EXPECT_NE(signature(one), signature(other));
  EXPECT_EQ(signature(one, false, /*with_numbers=*/false),
            signature(other, false, /*with_numbers=*/false));
  const Add longer = [](Writer& w) {
    w.add_int(1);
    w.add_ints(std::array<int64_t, 3>{4, 3, 2});
    w.add_bool(true);
  };
  EXPECT_NE(signature(one, false, false), signature(longer, false, false));
}

// What is no tensor, each kind in two that differ only in what they hold.
struct Pair {
  Add one;
  Add other;
};

std::vector<Pair> always_in_the_key() {
  return {{[](Writer& w) { w.add_int(1); }, [](Writer& w) { w.add_int(2); }},
          {[](Writer& w) { w.add_bool(true); },
           [](Writer& w) { w.add_bool(false); }},
          {[](Writer& w) { w.add_string("sum of all"); },
           [](Writer& w) { w.add_string("sum of one"); }},
          {[](Writer& w) { w.add_ints(kSizes); },
           [](Writer& w) { w.add_ints(kStrides); }},
          {[](Writer& w) {
             w.begin_bools(2);
             w.add_word(0);
             w.add_word(1);
           },
           [](Writer& w) {
             w.begin_bools(2);
             w.add_word(0);
             w.add_word(0);
           }}};
}

std::vector<Pair> values() {
  return {{[](Writer& w) { w.add_float(0.1); },
           [](Writer& w) { w.add_float(0.2); }},
          {[](Writer& w) { w.add_complex(1, 2); },
           [](Writer& w) { w.add_complex(1, 3); }},
          {[](Writer& w) { w.add_generator(1); },
           [](Writer& w) { w.add_generator(2); }},
          {[](Writer& w) { w.add_host_value(6, 0, 1, 0); },
           [](Writer& w) { w.add_host_value(6, 0, 1, 1); }},
          {[](Writer& w) { w.add_floats(std::array<double, 2>{1, 2}); },
           [](Writer& w) { w.add_floats(std::array<double, 2>{1, 3}); }}};
}

TEST(SignatureTest, WhatIsNoTensorMattersAsInTheKey) {
  for (const bool apart : {false, true}) {
    for (const auto& [one, other] : always_in_the_key()) {
      EXPECT_NE(signature(one, apart), signature(other, apart));
      EXPECT_EQ(signature(one, apart), key(one, apart));
    }
    for (const auto& [one, other] : values()) {
      EXPECT_EQ(signature(one, apart) == signature(other, apart), apart);
      EXPECT_EQ(signature(one, apart), key(one, apart));
    }
  }
}

// A wrong length of one argument would move all that follow it.
TEST(SignatureTest, ArgumentsBetweenTensorsAreAllThere) {
  TensorShape other = shape();
  other.sizes = kTransposed;
  other.strides = kSizes;
  std::vector<Pair> pairs = always_in_the_key();
  const std::vector<Pair> more = values();
  pairs.insert(pairs.end(), more.begin(), more.end());
  pairs.push_back({[](Writer& w) { w.add_none(); }, {}});
  pairs.push_back({[](Writer& w) { w.add_undefined(); }, {}});
  pairs.push_back({[](Writer& w) { w.add_device(); }, {}});
  pairs.push_back({[](Writer& w) { w.begin_list(Tag::kTensorList, 1); }, {}});
  for (const bool apart : {false, true}) {
    for (const Pair& pair : pairs) {
      const Add before = both(tensor(shape()), pair.one);
      const Record both_words = signature(both(before, tensor(other)), apart);
      EXPECT_EQ(both_words.size(), key(pair.one, apart).size() + 2);
      EXPECT_EQ(both_words, signature(both(before, tensor(shape())), apart));
    }
  }
}

}  // namespace

}  // namespace torch_openreg::record::test
