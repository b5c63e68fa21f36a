#include "support/fuzz_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "backend/simulation/record/reader.h"
#include "backend/simulation/record/words.h"
#include "backend/simulation/record/writer.h"
#include "support/extent.h"

namespace torch_openreg::record::test {

namespace {

// Reads a record and writes its arguments again.
class Echo {
 public:
  explicit Echo(std::span<const Word> words)
      : words_(words), reader_(words), writer_(flags_of(words)) {}

  // Whether the record is well-formed.
  bool read() {
    if (!reader_.open()) return false;
    check_counts();
    for (uint32_t i = 0; i < header().storage_count; ++i) {
      (void)reader_.storage(i);
    }
    for (uint32_t i = 0; i < header().argument_count; ++i) {
      if (!read_argument()) return false;
    }
    for (uint32_t i = 0; i < header().output_count; ++i) {
      TensorView output;
      if (!reader_.next_output(&output)) return false;
      check_extent(output);
    }
    if (!reader_.at_end()) return false;
    check_echo();
    return true;
  }

 private:
  // Only to choose the writer; whether they may be there, open() says.
  static bool flags_of(std::span<const Word> words) {
    Header header{};
    if (words.size() < kHeaderWords) return false;
    std::memcpy(&header, words.data(), sizeof header);
    return (header.flags & kValuesApart) != 0;
  }

  const Header& header() const { return reader_.header(); }

  void check_counts() const {
    EXPECT_LE(header().argument_count, words_.size());
    EXPECT_LE(header().output_count, words_.size());
    EXPECT_LE(header().storage_count, words_.size() / 2);
    EXPECT_EQ(reader_.name().size(), header().name_bytes);
    EXPECT_EQ(reader_.name().find('\0'), std::string_view::npos);
  }

  void check_extent(const TensorView& tensor) const {
    ASSERT_EQ(tensor.sizes.size(), tensor.strides.size());
    ASSERT_LE(tensor.sizes.size(), kMaxDimensions);
    ASSERT_LT(tensor.storage, header().storage_count);
    const uint64_t bytes = reader_.storage(tensor.storage).bytes;
    for (const uint64_t itemsize : {1, 4, 16}) {
      EXPECT_EQ(reader_.fits(tensor, itemsize),
                fits_exactly(tensor, itemsize, bytes));
    }
  }

  bool read_argument() {
    Argument argument;
    if (!reader_.next_argument(&argument)) return false;
    if (!is_list(argument.tag)) return echo(argument);
    EXPECT_LE(argument.number, words_.size());
    writer_.begin_list(argument.tag, argument.number);
    for (uint32_t i = 0; i < argument.number; ++i) {
      Argument element;
      if (!reader_.next_argument(&element)) return false;
      EXPECT_FALSE(is_list(element.tag));
      if (!echo(element)) return false;
    }
    return true;
  }

  // An argument that is no list, with its parts.
  bool echo(const Argument& argument) {
    if (argument.tag != Tag::kComposite) {
      write(argument);
      return true;
    }
    writer_.begin_composite(argument.composite);
    for (const Tag expected : parts_of(argument.composite)) {
      Argument part;
      if (!reader_.next_argument(&part)) return false;
      EXPECT_EQ(part.tag, expected);
      write(part);
    }
    return true;
  }

  static bool is_list(Tag tag) {
    return tag == Tag::kTensorList || tag == Tag::kOptionalTensorList ||
           tag == Tag::kScalarList;
  }

  void write(const Argument& argument) {
    switch (argument.tag) {
      case Tag::kNone:
        return writer_.add_none();
      case Tag::kUndefined:
        return writer_.add_undefined();
      case Tag::kDevice:
        return writer_.add_device();
      case Tag::kTensor:
        return write(argument.tensor);
      case Tag::kHostValue:
        return writer_.add_host_value(argument.tensor.dtype,
                                      argument.tensor.flags, argument.words[0],
                                      argument.words[1]);
      case Tag::kInt:
        if (argument.is_apart) return writer_.add_number(argument.integer);
        return writer_.add_int(argument.integer);
      case Tag::kUnsigned:
        return writer_.add_unsigned(static_cast<uint64_t>(argument.integer));
      case Tag::kFloat:
        if (argument.is_apart) return writer_.add_number(argument.values[0]);
        return writer_.add_float(argument.values[0]);
      case Tag::kBool:
        return writer_.add_bool(argument.number != 0);
      case Tag::kComplex:
        return writer_.add_complex(argument.values[0], argument.values[1]);
      case Tag::kString:
        return writer_.add_string(argument.text);
      case Tag::kGenerator:
        return writer_.add_generator(argument.words[0]);
      case Tag::kIntList:
        return writer_.add_ints(argument.integers);
      case Tag::kFloatList:
        return writer_.add_floats(argument.floats);
      case Tag::kBoolList:
        writer_.begin_bools(argument.integers.size());
        for (const int64_t element : argument.integers) {
          writer_.add_word(element != 0 ? 1 : 0);
        }
        return;
      default:
        ADD_FAILURE() << "the reader gave an argument without a kind";
    }
  }

  void write(const TensorView& tensor) {
    check_extent(tensor);
    writer_.add_tensor({.dtype = tensor.dtype,
                        .flags = tensor.flags,
                        .offset = tensor.offset,
                        .sizes = tensor.sizes,
                        .strides = tensor.strides},
                       tensor.storage);
  }

  // The echo has no storages and no outputs: header, arguments, values, the
  // offsets of the arguments, name.
  void check_echo() const {
    Words words;
    writer_.finish(reader_.name(), header().operator_id, header().settings,
                   header().flags, header().argument_count, &words);
    const std::span<const Word> echo = words.view().subspan(kHeaderWords);
    const size_t name_words =
        (header().name_bytes + sizeof(Word) - 1) / sizeof(Word);
    ASSERT_GE(echo.size(), name_words);
    const size_t body = echo.size() - name_words;
    ASSERT_EQ(body, size_t{header().argument_words} + header().value_words +
                        header().offset_words - header().output_count);
    EXPECT_TRUE(std::ranges::equal(echo.first(body),
                                   words_.subspan(kHeaderWords, body)));
    EXPECT_TRUE(
        std::ranges::equal(echo.last(name_words), words_.last(name_words)));
  }

  const std::span<const Word> words_;
  Reader reader_;
  Writer writer_;
};

}  // namespace

bool fuzz_record(const uint8_t* data, size_t size) {
  if (size % sizeof(Word) != 0) return false;
  // A copy of exactly this size: a sanitizer sees the first word beyond it.
  const size_t count = size / sizeof(Word);
  const auto words = std::make_unique_for_overwrite<Word[]>(count);
  if (size > 0) std::memcpy(words.get(), data, size);
  return Echo({words.get(), count}).read();
}

}  // namespace torch_openreg::record::test
