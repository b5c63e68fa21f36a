#include "backend/simulation/record/reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "backend/simulation/record/extent.h"

namespace torch_openreg::record {

namespace {

// The words of the record are numbers of eight bytes each.
template <typename Number>
std::span<const Number> as(std::span<const Word> words) {
  static_assert(sizeof(Number) == sizeof(Word));
  return {reinterpret_cast<const Number*>(words.data()), words.size()};
}

size_t words_for(size_t bytes) {
  return (bytes + sizeof(Word) - 1) / sizeof(Word);
}

// The first `bytes` bytes of the words, which end in the last word.
std::string_view as_text(std::span<const Word> words, size_t bytes) {
  return {reinterpret_cast<const char*>(words.data()), bytes};
}

// Whether what follows the text in its last word is zero.
bool is_padded(std::span<const Word> words, size_t bytes) {
  constexpr char kZeros[sizeof(Word)] = {};
  const char* const start = reinterpret_cast<const char*>(words.data());
  const size_t padding = words.size_bytes() - bytes;
  return padding == 0 || std::memcmp(start + bytes, kZeros, padding) == 0;
}

// The bits of its first word that an argument may set, by tag.
constexpr auto kUsedBits = [] {
  constexpr Word kNumber = Word{0xffffffff} << 32;
  constexpr Word kDimensions = Word{0xff} << 24;
  constexpr Word kDtype = Word{0xff} << 8;
  std::array<Word, static_cast<size_t>(Tag::kLast) + 1> bits{};
  const auto use = [&bits](Tag tag, Word used) {
    bits[static_cast<size_t>(tag)] = used;
  };
  use(Tag::kTensor,
      kNumber | kDimensions | Word{kAllTensorFlags} << 16 | kDtype);
  use(Tag::kHostValue, Word{kWrappedNumber} << 16 | kDtype);
  use(Tag::kBool, Word{1} << 32);
  use(Tag::kComposite, Word{0xff} << 32);
  for (const Tag tag :
       {Tag::kString, Tag::kIntList, Tag::kFloatList, Tag::kBoolList,
        Tag::kTensorList, Tag::kOptionalTensorList, Tag::kScalarList,
        Tag::kFloatValue, Tag::kIntValue}) {
    use(tag, kNumber);
  }
  for (size_t tag = 0; tag < bits.size(); ++tag) bits[tag] |= tag;
  return bits;
}();

constexpr uint32_t bit(Tag tag) { return uint32_t{1} << static_cast<int>(tag); }

// The tags that may stand inside a list, as bits. Lists may not: whoever reads
// one inside another would follow a hostile record as deep as it likes.
uint32_t element_tags(Tag list) {
  constexpr uint32_t kTensors = bit(Tag::kTensor) | bit(Tag::kUndefined) |
                                bit(Tag::kHostValue) | bit(Tag::kComposite);
  switch (list) {
    case Tag::kTensorList:
      return kTensors;
    case Tag::kOptionalTensorList:
      return kTensors | bit(Tag::kNone);
    default:  // kScalarList
      return bit(Tag::kInt) | bit(Tag::kUnsigned) | bit(Tag::kFloat) |
             bit(Tag::kBool) | bit(Tag::kComplex);
  }
}

// Each argument and each output takes a word at least, and each output an
// offset: counts that say otherwise never reach whoever makes room for them.
bool is_consistent(const Header& header) {
  return header.storage_count <= kMaxStorages &&
         header.argument_count <= header.argument_words &&
         header.output_count <= header.output_words &&
         header.output_count <= header.offset_words &&
         ((header.flags & kKeepOutputs) == 0 || header.output_count == 0) &&
         header.name_bytes > 0 && header.name_bytes <= kMaxNameBytes;
}

}  // namespace

bool Reader::take(std::span<const Word>* words, size_t count,
                  std::span<const Word>* taken) {
  if (words->size() < count) return false;
  *taken = words->first(count);
  *words = words->subspan(count);
  return true;
}

bool Reader::take_values(size_t count, std::span<const Word>* taken) {
  const bool apart = (header_.flags & kValuesApart) != 0;
  return take(apart ? &values_ : &arguments_, count, taken);
}

bool Reader::open() {
  if (reinterpret_cast<uintptr_t>(words_.data()) % alignof(Word) != 0) {
    return false;
  }
  std::span<const Word> rest = words_;
  std::span<const Word> part;
  if (!take(&rest, kHeaderWords, &part)) return false;
  std::memcpy(&header_, part.data(), sizeof header_);
  if (header_.magic != kMagic || header_.version != kVersion ||
      (header_.flags & ~kAllRecordFlags) != 0 || !is_consistent(header_)) {
    return false;
  }
  std::span<const Word> name;
  if (!take(&rest, header_.argument_words, &arguments_) ||
      !take(&rest, header_.value_words, &values_) ||
      !take(&rest, header_.offset_words - header_.output_count, &offsets_) ||
      !take(&rest, header_.output_count, &output_offsets_) ||
      !take(&rest, size_t{header_.storage_count} * 2, &storages_) ||
      !take(&rest, header_.output_words, &outputs_) ||
      !take(&rest, words_for(header_.name_bytes), &name) || !rest.empty()) {
    return false;
  }
  name_ = as_text(name, header_.name_bytes);
  return is_padded(name, header_.name_bytes) &&
         name_.find('\0') == std::string_view::npos;
}

bool Reader::take_first(std::span<const Word>* words, FirstWord* first) {
  std::span<const Word> word;
  if (!take(words, 1, &word)) return false;
  *first = FirstWord::unpack(word[0]);
  return first->tag <= Tag::kLast &&
         (word[0] & ~kUsedBits[static_cast<size_t>(first->tag)]) == 0;
}

bool Reader::read_tensor(const FirstWord& first, std::span<const Word>* words,
                         std::span<const Word>* offsets,
                         TensorView* tensor) const {
  if (first.number >= header_.storage_count) return false;
  if (first.dimensions > kMaxDimensions) return false;
  std::span<const Word> body;
  std::span<const Word> offset;
  const size_t dimensions = first.dimensions;
  if (!take(words, 2 * dimensions, &body) || !take(offsets, 1, &offset)) {
    return false;
  }
  tensor->dtype = first.dtype;
  tensor->flags = first.flags;
  tensor->storage = first.number;
  tensor->offset = static_cast<int64_t>(offset[0]);
  tensor->sizes = as<int64_t>(body.first(dimensions));
  tensor->strides = as<int64_t>(body.last(dimensions));
  const auto is_negative = [](int64_t number) { return number < 0; };
  return tensor->offset >= 0 &&
         std::ranges::none_of(tensor->sizes, is_negative) &&
         std::ranges::none_of(tensor->strides, is_negative);
}

// Whether such an argument may come next; it counts as read.
bool Reader::is_due(Tag tag) {
  if (!parts_.empty()) {
    const Tag expected = parts_.front();
    parts_ = parts_.subspan(1);
    return tag == expected;
  }
  if (elements_left_ == 0) return true;
  --elements_left_;
  return (element_tags(list_) & bit(tag)) != 0;
}

bool Reader::next_argument(Argument* argument) {
  FirstWord first;
  if (!take_first(&arguments_, &first)) return false;
  if (!is_due(first.tag)) return false;
  argument->tag = first.tag;
  argument->number = first.number;
  argument->is_apart = false;
  return read_body(first, argument);
}

bool Reader::read_body(const FirstWord& first, Argument* argument) {
  std::span<const Word> taken;
  switch (first.tag) {
    case Tag::kTensor:
      return read_tensor(first, &arguments_, &offsets_, &argument->tensor);
    case Tag::kHostValue:
      argument->tensor.dtype = first.dtype;
      argument->tensor.flags = first.flags;
      if (!take_values(2, &taken)) return false;
      std::ranges::copy(taken, argument->words);
      return true;
    case Tag::kInt:
    case Tag::kUnsigned:
      if (!take(&arguments_, 1, &taken)) return false;
      argument->integer = static_cast<int64_t>(taken[0]);
      return true;
    case Tag::kFloat:
      if (!take_values(1, &taken)) return false;
      argument->values[0] = std::bit_cast<double>(taken[0]);
      return true;
    case Tag::kFloatValue:
    case Tag::kIntValue:
      return read_number(first, argument);
    case Tag::kComplex:
      if (!take_values(2, &taken)) return false;
      argument->values[0] = std::bit_cast<double>(taken[0]);
      argument->values[1] = std::bit_cast<double>(taken[1]);
      return true;
    case Tag::kString:
      if (!take(&arguments_, words_for(first.number), &taken)) return false;
      argument->text = as_text(taken, first.number);
      return is_padded(taken, first.number);
    case Tag::kGenerator:
      if (!take_values(1, &taken)) return false;
      argument->words[0] = taken[0];
      return true;
    case Tag::kIntList:
    case Tag::kBoolList:
      if (!take(&arguments_, first.number, &taken)) return false;
      argument->integers = as<int64_t>(taken);
      return first.tag == Tag::kIntList ||
             std::ranges::all_of(taken, [](Word word) { return word <= 1; });
    case Tag::kFloatList:
      if (!take_values(first.number, &taken)) return false;
      argument->floats = as<double>(taken);
      return true;
    case Tag::kNone:
    case Tag::kUndefined:
    case Tag::kBool:
    case Tag::kDevice:
      return true;
    case Tag::kTensorList:
    case Tag::kOptionalTensorList:
    case Tag::kScalarList:
      list_ = first.tag;
      elements_left_ = first.number;
      // Each element takes a word at least.
      return first.number <= arguments_.size();
    case Tag::kComposite:
      if (first.number > static_cast<uint32_t>(Composite::kLast)) return false;
      argument->composite = static_cast<Composite>(first.number);
      parts_ = parts_of(argument->composite);
      return true;
  }
  return false;
}

// The number must be as the key describes it.
bool Reader::read_number(const FirstWord& first, Argument* argument) {
  std::span<const Word> taken;
  if ((header_.flags & kValuesApart) == 0 || !take(&values_, 1, &taken)) {
    return false;
  }
  argument->is_apart = true;
  if (first.tag == Tag::kIntValue) {
    argument->tag = Tag::kInt;
    argument->integer = static_cast<int64_t>(taken[0]);
    return first.number == magnitudes_.of(argument->integer);
  }
  argument->tag = Tag::kFloat;
  argument->values[0] = std::bit_cast<double>(taken[0]);
  return first.number == magnitudes_.of(argument->values[0]);
}

bool Reader::next_output(TensorView* tensor) {
  FirstWord first;
  return take_first(&outputs_, &first) && first.tag == Tag::kTensor &&
         read_tensor(first, &outputs_, &output_offsets_, tensor);
}

bool Reader::fits(const TensorView& tensor, uint64_t itemsize) const {
  const auto extent = extent_of(tensor.sizes, tensor.strides);
  return extent.has_value() && lies_within(*extent, tensor.offset, itemsize,
                                           storage(tensor.storage).bytes);
}

}  // namespace torch_openreg::record
