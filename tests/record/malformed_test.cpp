// Whatever is wrong with a record, the reader refuses it.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/simulation/record/reader.h"
#include "support/fuzz_record.h"
#include "support/samples.h"

namespace torch_openreg::record::test {

namespace {

constexpr Word kNegative1 = ~Word{0};

bool opens(const Record& record) { return Reader(record).open(); }

// The argument's first word and what follows it, as the only argument. It has
// one storage and one offset.
Record with_argument(const std::vector<Word>& words) {
  Writer writer(/*values_apart=*/false);
  for (const Word word : words) writer.add_word(word);
  writer.add_storage(0x1000, 64);
  Record record = finish(writer, 1);
  Header header = header_of(record);
  if (FirstWord::unpack(words[0]).tag == Tag::kTensor) {
    record.insert(record.begin() + static_cast<int>(offsets_at(record)), 0);
    header.offset_words = 1;
  }
  return with_header(std::move(record), header);
}

Record with_argument(const FirstWord& first, std::vector<Word> words = {}) {
  words.insert(words.begin(), first.pack());
  return with_argument(words);
}

// The record with one word replaced.
Record with(Record record, size_t place, Word word) {
  record.at(place) = word;
  return record;
}

TEST(MalformedRecordTest, TruncatedAnywhere) {
  for (const Record& record : sample_records()) {
    for (size_t length = 0; length < record.size(); ++length) {
      EXPECT_FALSE(
          opens({record.begin(), record.begin() + static_cast<int>(length)}))
          << length << " words of " << record.size();
    }
  }
}

TEST(MalformedRecordTest, WithMoreBehindIt) {
  for (Record record : sample_records()) {
    record.push_back(0);
    EXPECT_FALSE(opens(record));
  }
}

TEST(MalformedRecordTest, InNoWholeWords) {
  const Record record = full_record(false);
  std::vector<uint8_t> bytes(record.size() * sizeof(Word));
  std::memcpy(bytes.data(), record.data(), bytes.size());
  ASSERT_TRUE(fuzz_record(bytes.data(), bytes.size()));
  for (size_t missing = 1; missing < sizeof(Word); ++missing) {
    EXPECT_FALSE(fuzz_record(bytes.data(), bytes.size() - missing));
  }
}

TEST(MalformedRecordTest, WhereWordsCannotBe) {
  const Record record = full_record(false);
  std::vector<Word> room(record.size() + 1);
  char* const start = reinterpret_cast<char*>(room.data());
  for (size_t shift = 0; shift < sizeof(Word); ++shift) {
    std::memcpy(start + shift, record.data(), record.size() * sizeof(Word));
    Reader reader(
        {reinterpret_cast<const Word*>(start + shift), record.size()});
    EXPECT_EQ(reader.open(), shift == 0);
  }
}

TEST(MalformedRecordTest, WithAnotherMagicOrVersion) {
  const Record record = full_record(false);
  Header header = header_of(record);
  header.magic = __builtin_bswap32(kMagic);  // of a machine unlike this one
  EXPECT_FALSE(opens(with_header(record, header)));
  header = header_of(record);
  header.version = kVersion + 1;
  EXPECT_FALSE(opens(with_header(record, header)));
  header.version = 0;
  EXPECT_FALSE(opens(with_header(record, header)));
}

TEST(MalformedRecordTest, WithFlagsThatDoNotExist) {
  const Record record = finish(Writer(false), 0);
  for (int bit = 0; bit < 16; ++bit) {
    Header header = header_of(record);
    header.flags = static_cast<uint16_t>(1U << bit);
    EXPECT_EQ(opens(with_header(record, header)), bit < 7) << bit;
  }
}

TEST(MalformedRecordTest, WithTheFlagsOfAnother) {
  for (const bool values_apart : {false, true}) {
    const Record record = full_record(values_apart);
    Header header = header_of(record);
    header.flags ^= kValuesApart;
    EXPECT_FALSE(is_well_formed(with_header(record, header)));
    header = header_of(record);
    header.flags |= kKeepOutputs;  // and it has outputs
    EXPECT_FALSE(opens(with_header(record, header)));
  }
}

TEST(MalformedRecordTest, WithAnyOtherLength) {
  constexpr std::array<uint32_t Header::*, 8> kLengths{
      &Header::argument_count, &Header::argument_words, &Header::value_words,
      &Header::storage_count,  &Header::output_count,   &Header::output_words,
      &Header::name_bytes,     &Header::offset_words};
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  for (const bool values_apart : {false, true}) {
    const Record record = full_record(values_apart);
    for (size_t i = 0; i < kLengths.size(); ++i) {
      const uint32_t right = header_of(record).*kLengths[i];
      for (const uint32_t wrong :
           {0U, right - 1, right + 1, right + 2, 2 * right + 1, 1U << 31, kMost,
            kMost - 1, kMost - right}) {
        if (wrong == right) continue;
        Header header = header_of(record);
        header.*kLengths[i] = wrong;
        EXPECT_FALSE(is_well_formed(with_header(record, header)))
            << "length " << i << " is " << wrong << " and not " << right;
      }
    }
  }
}

// Whoever makes room by a count has to read it first.
TEST(MalformedRecordTest, WithCountsThatItCannotHold) {
  Header header = header_of(finish(Writer(false), 0));
  header.argument_count = 1;
  EXPECT_FALSE(opens(with_header(finish(Writer(false), 0), header)));
  header = header_of(finish(Writer(false), 0));
  header.output_count = 1;
  EXPECT_FALSE(opens(with_header(finish(Writer(false), 0), header)));
  Record with_offset = finish(Writer(false), 0);
  with_offset.insert(with_offset.begin() + kHeaderWords, 0);
  header.offset_words = 1;
  EXPECT_FALSE(opens(with_header(with_offset, header)));
  header.output_count = 0;
  EXPECT_TRUE(opens(with_header(with_offset, header)));
}

TEST(MalformedRecordTest, WithTooManyStorages) {
  for (const uint32_t count : {kMaxStorages, kMaxStorages + 1}) {
    Record record = finish(Writer(false), 0);
    Header header = header_of(record);
    header.storage_count = count;
    record.insert(record.begin() + static_cast<int>(storages_at(record)),
                  2 * size_t{count}, 0);
    EXPECT_EQ(is_well_formed(with_header(std::move(record), header)),
              count == kMaxStorages);
  }
}

TEST(MalformedRecordTest, WithNoNameOrTooLongAName) {
  const Writer writer(false);
  for (const size_t length : {1, 7, 8, 9, 1023, 1024}) {
    EXPECT_TRUE(opens(finish(writer, 0, 0, std::string(length, 'x'))));
  }
  EXPECT_FALSE(opens(finish(writer, 0, 0, "")));
  EXPECT_FALSE(opens(finish(writer, 0, 0, std::string(1025, 'x'))));
  EXPECT_FALSE(opens(finish(writer, 0, 0, std::string(70000, 'x'))));
}

TEST(MalformedRecordTest, WithZerosInItsName) {
  const Writer writer(false);
  EXPECT_FALSE(opens(finish(writer, 0, 0, std::string("a\0b", 3))));
  EXPECT_FALSE(opens(finish(writer, 0, 0, std::string("a\0", 2))));
}

TEST(MalformedRecordTest, WithSomethingBehindItsName) {
  Record record = finish(Writer(false), 0, 0, "aten::abs");
  record.back() |= Word{1} << 63;
  EXPECT_FALSE(opens(record));
}

TEST(MalformedRecordTest, WithATagThatDoesNotExist) {
  for (unsigned tag = 0; tag < 256; ++tag) {
    const bool is_complete = tag != static_cast<unsigned>(Tag::kHostValue) &&
                             tag != static_cast<unsigned>(Tag::kInt) &&
                             tag != static_cast<unsigned>(Tag::kUnsigned) &&
                             tag != static_cast<unsigned>(Tag::kFloat) &&
                             tag != static_cast<unsigned>(Tag::kComplex) &&
                             tag != static_cast<unsigned>(Tag::kGenerator) &&
                             tag != static_cast<unsigned>(Tag::kFloatValue) &&
                             tag != static_cast<unsigned>(Tag::kIntValue) &&
                             tag != static_cast<unsigned>(Tag::kComposite);
    EXPECT_EQ(is_well_formed(with_argument(std::vector<Word>{tag})),
              tag <= static_cast<unsigned>(Tag::kLast) && is_complete)
        << tag;
  }
}

TEST(MalformedRecordTest, WithSomethingInFieldsThatItsTagDoesNotUse) {
  for (const Tag tag : {Tag::kNone, Tag::kUndefined, Tag::kDevice}) {
    EXPECT_TRUE(is_well_formed(with_argument({.tag = tag})));
    EXPECT_FALSE(is_well_formed(with_argument({.tag = tag, .dtype = 1})));
    EXPECT_FALSE(is_well_formed(with_argument({.tag = tag, .flags = 1})));
    EXPECT_FALSE(is_well_formed(with_argument({.tag = tag, .dimensions = 1})));
    EXPECT_FALSE(is_well_formed(with_argument({.tag = tag, .number = 1})));
  }
  for (const Tag tag : {Tag::kString, Tag::kIntList, Tag::kScalarList}) {
    EXPECT_TRUE(is_well_formed(with_argument({.tag = tag})));
    EXPECT_FALSE(is_well_formed(with_argument({.tag = tag, .dtype = 1})));
    EXPECT_FALSE(is_well_formed(with_argument({.tag = tag, .dimensions = 1})));
  }
  EXPECT_FALSE(
      is_well_formed(with_argument({.tag = Tag::kInt, .number = 1}, {5})));
}

TEST(MalformedRecordTest, WithFlagsThatATensorCannotHave) {
  for (unsigned flags = 0; flags < 256; ++flags) {
    const FirstWord tensor{.tag = Tag::kTensor,
                           .flags = static_cast<uint8_t>(flags)};
    EXPECT_EQ(is_well_formed(with_argument(tensor)), flags <= kAllTensorFlags);
    const FirstWord value{.tag = Tag::kHostValue,
                          .flags = static_cast<uint8_t>(flags)};
    EXPECT_EQ(is_well_formed(with_argument(value, {1, 2})),
              flags == 0 || flags == kWrappedNumber);
  }
}

TEST(MalformedRecordTest, WithBoolsThatAreNone) {
  EXPECT_TRUE(is_well_formed(with_argument({.tag = Tag::kBool, .number = 1})));
  EXPECT_FALSE(is_well_formed(with_argument({.tag = Tag::kBool, .number = 2})));
  const FirstWord list{.tag = Tag::kBoolList, .number = 2};
  EXPECT_TRUE(is_well_formed(with_argument(list, {0, 1})));
  EXPECT_FALSE(is_well_formed(with_argument(list, {0, 2})));
  EXPECT_FALSE(is_well_formed(with_argument(list, {kNegative1, 1})));
}

TEST(MalformedRecordTest, WithLengthsBeyondTheArguments) {
  for (const Tag tag : {Tag::kIntList, Tag::kFloatList, Tag::kBoolList,
                        Tag::kTensorList, Tag::kScalarList}) {
    for (const uint32_t length : {2U, 3U, 1U << 31, ~0U}) {
      EXPECT_FALSE(
          is_well_formed(with_argument({.tag = tag, .number = length}, {0})));
    }
  }
  for (const uint32_t bytes : {9U, 1U << 31, ~0U}) {
    EXPECT_FALSE(is_well_formed(
        with_argument({.tag = Tag::kString, .number = bytes}, {0})));
  }
}

TEST(MalformedRecordTest, WithSomethingBehindAString) {
  const FirstWord text{.tag = Tag::kString, .number = 3};
  EXPECT_TRUE(is_well_formed(with_argument(text, {0x616161})));
  EXPECT_FALSE(is_well_formed(with_argument(text, {0x61616161})));
}

TEST(MalformedRecordTest, WithListsInsideLists) {
  for (const Tag outer :
       {Tag::kTensorList, Tag::kOptionalTensorList, Tag::kScalarList}) {
    for (const Tag inner :
         {Tag::kIntList, Tag::kFloatList, Tag::kBoolList, Tag::kTensorList,
          Tag::kOptionalTensorList, Tag::kScalarList}) {
      EXPECT_FALSE(is_well_formed(
          with_argument({.tag = outer, .number = 1},
                        {FirstWord{.tag = inner, .number = 0}.pack()})));
    }
  }
}

// Read by a function that calls itself, it would take all of the stack.
TEST(MalformedRecordTest, WithAMillionListsInsideEachOther) {
  const Word list = FirstWord{.tag = Tag::kScalarList, .number = 1}.pack();
  const Record record = with_argument(std::vector<Word>(1'000'000, list));
  Reader reader(record);
  ASSERT_TRUE(reader.open());
  Argument argument;
  EXPECT_TRUE(reader.next_argument(&argument));
  EXPECT_FALSE(reader.next_argument(&argument));
}

TEST(MalformedRecordTest, WithElementsThatDoNotBelongIntoTheList) {
  const auto holds = [](Tag list, Tag element, std::vector<Word> words = {}) {
    words.insert(words.begin(), FirstWord{.tag = element}.pack());
    return is_well_formed(with_argument({.tag = list, .number = 1}, words));
  };
  EXPECT_TRUE(holds(Tag::kScalarList, Tag::kInt, {1}));
  EXPECT_TRUE(holds(Tag::kScalarList, Tag::kComplex, {1, 2}));
  EXPECT_FALSE(holds(Tag::kScalarList, Tag::kNone));
  EXPECT_FALSE(holds(Tag::kScalarList, Tag::kString));
  EXPECT_FALSE(holds(Tag::kScalarList, Tag::kUndefined));
  EXPECT_FALSE(holds(Tag::kScalarList, Tag::kHostValue, {1, 2}));
  EXPECT_TRUE(holds(Tag::kTensorList, Tag::kUndefined));
  EXPECT_TRUE(holds(Tag::kTensorList, Tag::kHostValue, {1, 2}));
  EXPECT_FALSE(holds(Tag::kTensorList, Tag::kNone));
  EXPECT_FALSE(holds(Tag::kTensorList, Tag::kInt, {1}));
  EXPECT_FALSE(holds(Tag::kTensorList, Tag::kGenerator, {1}));
  EXPECT_TRUE(holds(Tag::kOptionalTensorList, Tag::kNone));
  EXPECT_FALSE(holds(Tag::kOptionalTensorList, Tag::kBool));
}

TEST(MalformedRecordTest, WithACompositeOfNoKind) {
  for (const uint32_t number : {9U, 255U, 256U, ~0U}) {
    EXPECT_FALSE(is_well_formed(
        with_argument({.tag = Tag::kComposite, .number = number})));
  }
  EXPECT_FALSE(
      is_well_formed(with_argument({.tag = Tag::kComposite, .dtype = 1})));
}

// The only argument of the record: a composite with one part replaced.
Record with_part(Composite kind, size_t place, Tag tag) {
  Writer writer(/*values_apart=*/false);
  writer.begin_composite(kind);
  const auto parts = parts_of(kind);
  for (size_t i = 0; i < parts.size(); ++i) {
    switch (i == place ? tag : parts[i]) {
      case Tag::kTensor:
        writer.add_tensor({}, writer.add_storage(0x1000, 64));
        break;
      case Tag::kIntList:
        writer.add_ints({});
        break;
      case Tag::kInt:
        writer.add_int(0);
        break;
      case Tag::kFloat:
        writer.add_float(0);
        break;
      case Tag::kComposite:
        writer.begin_composite(Composite::kCoo);
        break;
      default:
        writer.add_bool(false);
    }
  }
  return finish(writer, 1);
}

TEST(MalformedRecordTest, WithACompositeOfOtherParts) {
  for (unsigned number = 0; number <= static_cast<unsigned>(Composite::kLast);
       ++number) {
    const auto kind = static_cast<Composite>(number);
    const auto parts = parts_of(kind);
    for (size_t place = 0; place < parts.size(); ++place) {
      for (const Tag tag : {Tag::kTensor, Tag::kIntList, Tag::kInt, Tag::kFloat,
                            Tag::kBool, Tag::kComposite}) {
        EXPECT_EQ(is_well_formed(with_part(kind, place, tag)),
                  tag == parts[place]);
      }
    }
  }
}

TEST(MalformedRecordTest, WithTooManyDimensions) {
  for (const size_t dimensions : {64, 65, 255, 256, 257, 300, 320, 600}) {
    const std::vector<int64_t> ones(dimensions, 1);
    Writer writer(false);
    writer.add_tensor(
        {.dtype = 6, .flags = 0, .offset = 0, .sizes = ones, .strides = ones},
        writer.add_storage(0x1000, 8));
    EXPECT_EQ(is_well_formed(finish(writer, 1)), dimensions <= kMaxDimensions)
        << dimensions;
  }
}

// Not a tensor without dimensions and 512 arguments that are none.
TEST(MalformedRecordTest, WithMoreDimensionsThanTheFieldCanTell) {
  const std::vector<int64_t> zeros(256, 0);
  Writer writer(false);
  writer.add_tensor(
      {.dtype = 6, .flags = 0, .offset = 0, .sizes = zeros, .strides = zeros},
      writer.add_storage(0x1000, 8));
  EXPECT_FALSE(is_well_formed(finish(writer, 1 + 512)));
}

TEST(MalformedRecordTest, WithATensorInAStorageThatDoesNotExist) {
  const FirstWord first{.tag = Tag::kTensor, .number = 1};
  EXPECT_FALSE(is_well_formed(with_argument(first)));
  const FirstWord last{.tag = Tag::kTensor, .number = ~0U};
  EXPECT_FALSE(is_well_formed(with_argument(last)));
}

TEST(MalformedRecordTest, WithNegativeNumbersInATensor) {
  const FirstWord tensor{.tag = Tag::kTensor, .dimensions = 2};
  const Record record = with_argument(tensor, {2, 3, 3, 1});
  ASSERT_TRUE(is_well_formed(record));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(
        is_well_formed(with(record, kArgumentsAt + 1 + i, kNegative1)));
  }
  EXPECT_FALSE(is_well_formed(with(record, offsets_at(record), kNegative1)));
}

TEST(MalformedRecordTest, WithOutputsThatAreNoTensors) {
  const Record record = full_record(false);
  for (const Tag tag : {Tag::kNone, Tag::kUndefined, Tag::kTensorList}) {
    EXPECT_FALSE(is_well_formed(
        with(record, outputs_at(record), FirstWord{.tag = tag}.pack())));
  }
  FirstWord first = FirstWord::unpack(record[outputs_at(record)]);
  first.number = header_of(record).storage_count;
  EXPECT_FALSE(is_well_formed(with(record, outputs_at(record), first.pack())));
  first.number = 0;
  first.dimensions = kMaxDimensions + 1;
  EXPECT_FALSE(is_well_formed(with(record, outputs_at(record), first.pack())));
  EXPECT_FALSE(
      is_well_formed(with(record, storages_at(record) - 1, kNegative1)));
}

TEST(MalformedRecordTest, WithMoreThanItsArgumentsSay) {
  Record record = finish(Writer(true), 0);
  Header header = header_of(record);
  for (uint32_t Header::* part :
       {&Header::argument_words, &Header::value_words, &Header::offset_words,
        &Header::output_words}) {
    Header longer = header;
    longer.*part += 1;
    Record with_rest = with_header(record, longer);
    with_rest.insert(with_rest.begin() + kHeaderWords, 0);
    Reader reader(with_rest);
    ASSERT_TRUE(reader.open());
    EXPECT_FALSE(reader.at_end());
  }
}

}  // namespace

}  // namespace torch_openreg::record::test
