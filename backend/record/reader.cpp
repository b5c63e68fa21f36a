#include "backend/record/reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

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

}  // namespace

bool Reader::take(std::span<const Word>* words, size_t count,
                  std::span<const Word>* taken) const {
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
  std::span<const Word> rest = words_;
  std::span<const Word> part;
  if (!take(&rest, kHeaderWords, &part)) return false;
  std::memcpy(&header_, part.data(), sizeof header_);
  if (header_.magic != kMagic || header_.version != kVersion) return false;
  if ((header_.flags & ~(kValuesApart | kKeepOutputs)) != 0) return false;
  if (header_.storage_count > kMaxStorages) return false;
  if (header_.name_bytes == 0 || header_.name_bytes > kMaxNameBytes) {
    return false;
  }
  std::span<const Word> name;
  if (!take(&rest, header_.argument_words, &arguments_) ||
      !take(&rest, header_.value_words, &values_) ||
      !take(&rest, header_.offset_words, &offsets_) ||
      !take(&rest, size_t{header_.storage_count} * 2, &storages_) ||
      !take(&rest, header_.output_words, &outputs_) ||
      !take(&rest, words_for(header_.name_bytes), &name) || !rest.empty()) {
    return false;
  }
  name_ = {reinterpret_cast<const char*>(name.data()), header_.name_bytes};
  return true;
}

bool Reader::read_tensor(std::span<const Word>* words, const FirstWord& first,
                         TensorView* tensor) {
  if (first.number >= header_.storage_count) return false;
  if (first.dimensions > kMaxDimensions) return false;
  if ((first.flags & ~kAllTensorFlags) != 0) return false;
  std::span<const Word> body;
  std::span<const Word> offset;
  const size_t dimensions = first.dimensions;
  if (!take(words, 2 * dimensions, &body) || !take(&offsets_, 1, &offset)) {
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

bool Reader::next_argument(Argument* argument) {
  std::span<const Word> word;
  if (!take(&arguments_, 1, &word)) return false;
  const FirstWord first = FirstWord::unpack(word[0]);
  if (first.tag > Tag::kLast) return false;
  argument->tag = first.tag;
  argument->number = first.number;
  return read_body(first, argument);
}

bool Reader::read_body(const FirstWord& first, Argument* argument) {
  std::span<const Word> taken;
  switch (first.tag) {
    case Tag::kTensor:
      return read_tensor(&arguments_, first, &argument->tensor);
    case Tag::kHostValue:
      argument->tensor.dtype = first.dtype;
      argument->tensor.flags = first.flags;
      if ((first.flags & ~kAllTensorFlags) != 0) return false;
      if (!take_values(2, &taken)) return false;
      std::ranges::copy(taken, argument->words);
      return true;
    case Tag::kInt:
      if (!take(&arguments_, 1, &taken)) return false;
      argument->integer = static_cast<int64_t>(taken[0]);
      return true;
    case Tag::kFloat:
      if (!take_values(1, &taken)) return false;
      argument->values[0] = std::bit_cast<double>(taken[0]);
      return true;
    case Tag::kBool:
      return first.number <= 1;
    case Tag::kComplex:
      if (!take_values(2, &taken)) return false;
      argument->values[0] = std::bit_cast<double>(taken[0]);
      argument->values[1] = std::bit_cast<double>(taken[1]);
      return true;
    case Tag::kString:
      if (!take(&arguments_, words_for(first.number), &taken)) return false;
      argument->text = {reinterpret_cast<const char*>(taken.data()),
                        first.number};
      return true;
    case Tag::kGenerator:
      if (!take_values(1, &taken)) return false;
      argument->words[0] = taken[0];
      return true;
    case Tag::kIntList:
    case Tag::kBoolList:
      if (!take(&arguments_, first.number, &taken)) return false;
      argument->integers = as<int64_t>(taken);
      return true;
    case Tag::kFloatList:
      if (!take_values(first.number, &taken)) return false;
      argument->floats = as<double>(taken);
      return true;
    case Tag::kNone:
    case Tag::kUndefined:
    case Tag::kDevice:
      return true;
    case Tag::kTensorList:
    case Tag::kOptionalTensorList:
    case Tag::kScalarList:
      // Each element takes a word at least.
      return first.number <= arguments_.size();
  }
  return false;
}

bool Reader::next_output(TensorView* tensor) {
  std::span<const Word> word;
  if (!take(&outputs_, 1, &word)) return false;
  const FirstWord first = FirstWord::unpack(word[0]);
  return first.tag == Tag::kTensor && read_tensor(&outputs_, first, tensor);
}

bool Reader::fits(const TensorView& tensor, uint64_t itemsize) const {
  uint64_t last = static_cast<uint64_t>(tensor.offset);
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return true;
    uint64_t step = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(tensor.sizes[i] - 1),
                               static_cast<uint64_t>(tensor.strides[i]),
                               &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return false;
    }
  }
  uint64_t bytes = 0;
  return !__builtin_add_overflow(last, uint64_t{1}, &last) &&
         !__builtin_mul_overflow(last, itemsize, &bytes) &&
         bytes <= storage(tensor.storage).bytes;
}

}  // namespace torch_openreg::record
