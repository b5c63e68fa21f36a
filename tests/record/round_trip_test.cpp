// What the writer writes, the reader reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "backend/simulation/record/reader.h"
#include "support/fuzz_record.h"
#include "support/samples.h"

namespace torch_openreg::record::test {

namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

// Whether values are apart: the arguments must read the same.
class RoundTripTest : public ::testing::TestWithParam<bool> {
 protected:
  // Writes arguments and opens the record.
  void write(uint32_t count, const std::function<void(Writer&)>& add) {
    Writer writer(GetParam());
    add(writer);
    record_ = finish(writer, count);
    reader_ = Reader(record_);
    ASSERT_TRUE(reader_.open());
    EXPECT_EQ(reader_.header().argument_count, count);
  }

  Argument next(Tag tag) {
    Argument argument;
    EXPECT_TRUE(reader_.next_argument(&argument));
    EXPECT_EQ(argument.tag, tag);
    return argument;
  }

  void TearDown() override {
    Argument argument;
    EXPECT_TRUE(reader_.at_end());
    EXPECT_FALSE(reader_.next_argument(&argument));
  }

  Record record_;
  Reader reader_{{}};
};

INSTANTIATE_TEST_SUITE_P(Values, RoundTripTest, ::testing::Bool(),
                         [](const auto& test) {
                           return test.param ? "Apart" : "InPlace";
                         });

TEST_P(RoundTripTest, WhatHasNoContent) {
  write(3, [](Writer& writer) {
    writer.add_none();
    writer.add_undefined();
    writer.add_device();
  });
  next(Tag::kNone);
  next(Tag::kUndefined);
  next(Tag::kDevice);
}

TEST_P(RoundTripTest, Ints) {
  write(3, [](Writer& writer) {
    for (const int64_t number : {int64_t{0}, kHuge, kLeast}) {
      writer.add_int(number);
    }
  });
  EXPECT_EQ(next(Tag::kInt).integer, 0);
  EXPECT_EQ(next(Tag::kInt).integer, kHuge);
  EXPECT_EQ(next(Tag::kInt).integer, kLeast);
}

TEST_P(RoundTripTest, FloatsToTheLastBit) {
  const double nan = std::bit_cast<double>(Word{0x7ff8dead0000beef});
  write(3, [nan](Writer& writer) {
    writer.add_float(nan);
    writer.add_float(-0.0);
    writer.add_float(std::numeric_limits<double>::denorm_min());
  });
  EXPECT_EQ(std::bit_cast<Word>(next(Tag::kFloat).values[0]),
            std::bit_cast<Word>(nan));
  EXPECT_TRUE(std::signbit(next(Tag::kFloat).values[0]));
  EXPECT_EQ(next(Tag::kFloat).values[0],
            std::numeric_limits<double>::denorm_min());
}

TEST_P(RoundTripTest, Bools) {
  write(2, [](Writer& writer) {
    writer.add_bool(true);
    writer.add_bool(false);
  });
  EXPECT_EQ(next(Tag::kBool).number, 1);
  EXPECT_EQ(next(Tag::kBool).number, 0);
}

TEST_P(RoundTripTest, ComplexNumbers) {
  write(1, [](Writer& writer) { writer.add_complex(1.5, -INFINITY); });
  const Argument argument = next(Tag::kComplex);
  EXPECT_EQ(argument.values[0], 1.5);
  EXPECT_EQ(argument.values[1], -INFINITY);
}

TEST_P(RoundTripTest, StringsOfEveryLength) {
  const std::string text = "twenty-five bytes of text";
  write(26, [&](Writer& writer) {
    for (size_t i = 0; i <= 25; ++i) writer.add_string(text.substr(0, i));
  });
  for (size_t i = 0; i <= 25; ++i) {
    EXPECT_EQ(next(Tag::kString).text, text.substr(0, i));
  }
}

TEST_P(RoundTripTest, AStringMayHoldZeros) {
  const std::string text("\0a\0", 3);
  write(1, [&](Writer& writer) { writer.add_string(text); });
  EXPECT_EQ(next(Tag::kString).text, text);
}

TEST_P(RoundTripTest, Generators) {
  write(1, [](Writer& writer) { writer.add_generator(~uint64_t{0}); });
  EXPECT_EQ(next(Tag::kGenerator).words[0], ~uint64_t{0});
}

TEST_P(RoundTripTest, HostValues) {
  write(2, [](Writer& writer) {
    writer.add_host_value(9, kWrappedNumber, 1, 2);
    writer.add_host_value(255, 0, ~Word{0}, 0);
  });
  const Argument wrapped = next(Tag::kHostValue);
  EXPECT_EQ(wrapped.tensor.dtype, 9);
  EXPECT_EQ(wrapped.tensor.flags, kWrappedNumber);
  EXPECT_THAT(wrapped.words, ElementsAre(1, 2));
  const Argument plain = next(Tag::kHostValue);
  EXPECT_EQ(plain.tensor.dtype, 255);
  EXPECT_EQ(plain.tensor.flags, 0);
  EXPECT_THAT(plain.words, ElementsAre(~Word{0}, 0));
}

TEST_P(RoundTripTest, ListsOfNumbers) {
  write(3, [](Writer& writer) {
    writer.add_ints(std::array<int64_t, 3>{kLeast, 0, kHuge});
    writer.add_floats(std::array<double, 2>{0.5, -0.5});
    writer.begin_bools(2);
    writer.add_word(0);
    writer.add_word(1);
  });
  EXPECT_THAT(next(Tag::kIntList).integers, ElementsAre(kLeast, 0, kHuge));
  EXPECT_THAT(next(Tag::kFloatList).floats, ElementsAre(0.5, -0.5));
  EXPECT_THAT(next(Tag::kBoolList).integers, ElementsAre(0, 1));
}

TEST_P(RoundTripTest, EmptyLists) {
  write(7, [](Writer& writer) {
    writer.add_ints({});
    writer.add_floats({});
    writer.begin_bools(0);
    writer.begin_list(Tag::kTensorList, 0);
    writer.begin_list(Tag::kOptionalTensorList, 0);
    writer.begin_list(Tag::kScalarList, 0);
    writer.begin_list(Tag::kScalarList, 0);
  });
  EXPECT_THAT(next(Tag::kIntList).integers, IsEmpty());
  EXPECT_THAT(next(Tag::kFloatList).floats, IsEmpty());
  EXPECT_THAT(next(Tag::kBoolList).integers, IsEmpty());
  EXPECT_EQ(next(Tag::kTensorList).number, 0);
  EXPECT_EQ(next(Tag::kOptionalTensorList).number, 0);
  EXPECT_EQ(next(Tag::kScalarList).number, 0);
  EXPECT_EQ(next(Tag::kScalarList).number, 0);
}

TEST_P(RoundTripTest, ListsOfArguments) {
  const std::array<int64_t, 1> one{1};
  const TensorShape shape{
      .dtype = 6, .flags = 0, .offset = 0, .sizes = one, .strides = one};
  write(4, [&](Writer& writer) {
    writer.begin_list(Tag::kTensorList, 3);
    writer.add_tensor(shape, writer.add_storage(0x1000, 8));
    writer.add_undefined();
    writer.add_host_value(6, 0, 5, 0);
    writer.begin_list(Tag::kOptionalTensorList, 2);
    writer.add_none();
    writer.add_tensor(shape, writer.add_storage(0x2000, 8));
    writer.begin_list(Tag::kScalarList, 5);
    writer.add_int(1);
    writer.add_unsigned(~uint64_t{0});
    writer.add_float(2);
    writer.add_bool(true);
    writer.add_complex(3, 4);
    writer.add_string("behind the lists");
  });
  EXPECT_EQ(next(Tag::kTensorList).number, 3);
  EXPECT_EQ(next(Tag::kTensor).tensor.storage, 0);
  next(Tag::kUndefined);
  EXPECT_EQ(next(Tag::kHostValue).words[0], 5);
  EXPECT_EQ(next(Tag::kOptionalTensorList).number, 2);
  next(Tag::kNone);
  EXPECT_EQ(next(Tag::kTensor).tensor.storage, 1);
  EXPECT_EQ(next(Tag::kScalarList).number, 5);
  EXPECT_EQ(next(Tag::kInt).integer, 1);
  EXPECT_EQ(static_cast<uint64_t>(next(Tag::kUnsigned).integer), ~uint64_t{0});
  EXPECT_EQ(next(Tag::kFloat).values[0], 2);
  EXPECT_EQ(next(Tag::kBool).number, 1);
  EXPECT_EQ(next(Tag::kComplex).values[1], 4);
  EXPECT_EQ(next(Tag::kString).text, "behind the lists");
}

TEST_P(RoundTripTest, CompositesHaveTheirParts) {
  const std::array<int64_t, 1> one{1};
  const TensorShape shape{
      .dtype = 6, .flags = 0, .offset = 0, .sizes = one, .strides = one};
  write(2, [&](Writer& writer) {
    writer.begin_list(Tag::kTensorList, 2);
    writer.begin_composite(Composite::kCoo);
    writer.add_ints(std::array<int64_t, 2>{3, 2});
    writer.add_bool(true);
    writer.add_tensor(shape, writer.add_storage(0x1000, 8));
    writer.add_tensor(shape, writer.add_storage(0x2000, 8));
    writer.add_undefined();
    writer.begin_composite(Composite::kPerTensor);
    writer.add_tensor(shape, writer.add_storage(0x1000, 8));
    writer.add_ints(one);
    writer.add_ints(one);
    writer.add_int(0);
    writer.add_int(13);
    writer.add_float(0.25);
    writer.add_int(-3);
  });
  EXPECT_EQ(next(Tag::kTensorList).number, 2);
  EXPECT_EQ(next(Tag::kComposite).composite, Composite::kCoo);
  EXPECT_THAT(next(Tag::kIntList).integers, ElementsAre(3, 2));
  EXPECT_EQ(next(Tag::kBool).number, 1);
  EXPECT_EQ(next(Tag::kTensor).tensor.storage, 0);
  EXPECT_EQ(next(Tag::kTensor).tensor.storage, 1);
  next(Tag::kUndefined);
  EXPECT_EQ(next(Tag::kComposite).composite, Composite::kPerTensor);
  EXPECT_EQ(next(Tag::kTensor).tensor.storage, 0);
  EXPECT_THAT(next(Tag::kIntList).integers, ElementsAre(1));
  EXPECT_THAT(next(Tag::kIntList).integers, ElementsAre(1));
  EXPECT_EQ(next(Tag::kInt).integer, 0);
  EXPECT_EQ(next(Tag::kInt).integer, 13);
  EXPECT_EQ(next(Tag::kFloat).values[0], 0.25);
  EXPECT_EQ(next(Tag::kInt).integer, -3);
}

TEST_P(RoundTripTest, Tensors) {
  const std::array<int64_t, 3> sizes{2, 0, kHuge};
  const std::array<int64_t, 3> strides{kHuge, 1, 0};
  write(2, [&](Writer& writer) {
    writer.add_tensor({.dtype = 15,
                       .flags = kAllTensorFlags,
                       .offset = kHuge,
                       .sizes = sizes,
                       .strides = strides},
                      writer.add_storage(0x1000, 24));
    writer.add_tensor({}, writer.add_storage(0x2000, ~uint64_t{0}));
  });
  const TensorView tensor = next(Tag::kTensor).tensor;
  EXPECT_EQ(tensor.dtype, 15);
  EXPECT_EQ(tensor.flags, kAllTensorFlags);
  EXPECT_EQ(tensor.storage, 0);
  EXPECT_EQ(tensor.offset, kHuge);
  EXPECT_THAT(tensor.sizes, ElementsAreArray(sizes));
  EXPECT_THAT(tensor.strides, ElementsAreArray(strides));
  const TensorView scalar = next(Tag::kTensor).tensor;
  EXPECT_EQ(scalar.dtype, 0);
  EXPECT_EQ(scalar.storage, 1);
  EXPECT_EQ(scalar.offset, 0);
  EXPECT_THAT(scalar.sizes, IsEmpty());
  EXPECT_THAT(scalar.strides, IsEmpty());
  EXPECT_EQ(reader_.storage(0).address, 0x1000);
  EXPECT_EQ(reader_.storage(0).bytes, 24);
  EXPECT_EQ(reader_.storage(1).address, 0x2000);
  EXPECT_EQ(reader_.storage(1).bytes, ~uint64_t{0});
}

TEST_P(RoundTripTest, ATensorOfSoManyDimensions) {
  std::vector<int64_t> sizes(kMaxDimensions);
  std::vector<int64_t> strides(kMaxDimensions);
  for (size_t i = 0; i < kMaxDimensions; ++i) {
    sizes[i] = static_cast<int64_t>(i);
    strides[i] = static_cast<int64_t>(1000 + i);
  }
  write(1, [&](Writer& writer) {
    writer.add_tensor({.dtype = 6,
                       .flags = 0,
                       .offset = 0,
                       .sizes = sizes,
                       .strides = strides},
                      writer.add_storage(0x1000, 8));
  });
  const TensorView tensor = next(Tag::kTensor).tensor;
  EXPECT_THAT(tensor.sizes, ElementsAreArray(sizes));
  EXPECT_THAT(tensor.strides, ElementsAreArray(strides));
}

TEST_P(RoundTripTest, OutputsHaveStoragesOfTheirOwn) {
  const std::array<int64_t, 1> one{1};
  const std::array<Word, 3> output{FirstWord{Tag::kTensor, 6, 0, 1, 99}.pack(),
                                   5, 1};
  write(1, [&](Writer& writer) {
    writer.add_tensor(
        {.dtype = 6, .flags = 0, .offset = 3, .sizes = one, .strides = one},
        writer.add_storage(0x1000, 64));
    writer.add_output(output, 0x1000, 20);  // at the same address
    writer.add_output(output, 0x2000, 20);
  });
  EXPECT_EQ(reader_.header().output_count, 2);
  EXPECT_EQ(reader_.header().storage_count, 3);
  // Outputs may be read first.
  for (const uint32_t storage : {1, 2}) {
    TensorView view;
    ASSERT_TRUE(reader_.next_output(&view));
    EXPECT_EQ(view.storage, storage);
    EXPECT_EQ(view.offset, 0);
    EXPECT_THAT(view.sizes, ElementsAre(5));
    EXPECT_THAT(view.strides, ElementsAre(1));
    EXPECT_TRUE(reader_.fits(view, 4));
    EXPECT_FALSE(reader_.fits(view, 8));
  }
  TensorView view;
  EXPECT_FALSE(reader_.next_output(&view));
  EXPECT_FALSE(reader_.at_end());
  EXPECT_EQ(next(Tag::kTensor).tensor.offset, 3);
}

TEST(RecordTest, TheHeaderHoldsWhatWasGiven) {
  const Record record = finish(Writer(false), 0, kKeepOutputs);
  Reader reader(record);
  ASSERT_TRUE(reader.open());
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(reader.name(), kName);
  EXPECT_EQ(reader.header().operator_id, id_of(kName));
  EXPECT_EQ(reader.header().settings, kSettings);
  EXPECT_EQ(reader.header().flags, kKeepOutputs);
  EXPECT_EQ(header_of(finish(Writer(true), 0)).flags, kValuesApart);
}

TEST(RecordTest, NamesHaveDifferentIds) {
  EXPECT_NE(id_of("aten::add.Tensor"), id_of("aten::add.Scalar"));
  EXPECT_NE(id_of("aten::add"), id_of("aten::add_"));
  // Records are kept: the number of a name is part of the format.
  EXPECT_EQ(id_of(""), 0xcbf29ce484222325);
  EXPECT_EQ(id_of("a"), 0xaf63dc4c8601ec8c);
}

TEST(RecordTest, EverySampleIsWellFormed) {
  const std::vector<Record> records = sample_records();
  EXPECT_GT(records.size(), 90);
  for (const Record& record : records) EXPECT_TRUE(is_well_formed(record));
}

// Those of numbers apart are read as kFloat and kInt.
TEST(RecordTest, TheFullRecordHoldsEveryTag) {
  for (const bool values_apart : {false, true}) {
    const Record record = full_record(values_apart);
    Reader reader(record);
    ASSERT_TRUE(reader.open());
    std::vector<bool> seen(static_cast<size_t>(Tag::kUnsigned) + 1);
    Argument argument;
    while (reader.next_argument(&argument)) {
      seen[static_cast<size_t>(argument.tag)] = true;
    }
    EXPECT_THAT(seen, ::testing::Each(true));
  }
}

}  // namespace

}  // namespace torch_openreg::record::test
