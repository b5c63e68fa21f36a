// Reads launch records and trusts nothing in them: every number is checked
// before it is used, and whatever is wrong makes the reader fail, never crash.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/simulation/record/format.h"
#include "backend/simulation/record/magnitude.h"

namespace torch_openreg::record {

struct StorageView {
  uint64_t address;
  uint64_t bytes;
};

// A tensor as a record holds it; the spans point into the record.
struct TensorView {
  uint8_t dtype = 0;
  uint8_t flags = 0;
  uint32_t storage = 0;
  int64_t offset = 0;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};

// One argument. Which fields hold something depends on the tag.
struct Argument {
  Tag tag = Tag::kNone;   // of kFloatValue and kIntValue: kFloat and kInt
  bool is_apart = false;  // a number of which the key knows the magnitude
  TensorView tensor;      // kTensor; dtype and flags: kHostValue
  uint32_t number = 0;    // kBool, and the length of lists
  Composite composite{};  // kComposite
  int64_t integer = 0;    // kInt, and the bits of kUnsigned
  double values[2] = {};  // kFloat, kComplex
  Word words[2] = {};     // kHostValue, kGenerator
  std::string_view text;  // kString
  std::span<const int64_t> integers;  // kIntList, kBoolList
  std::span<const double> floats;     // kFloatList
};

// Reads one record from front to back. Not thread-safe. The words outlive it
// and stay as they are: a record in memory that another process can write is
// copied out first.
class Reader {
 public:
  explicit Reader(std::span<const Word> words) : words_(words) {}

  // Checks the header, the name and that the parts fill the record exactly.
  // First of all; the rest may be used only if it gave true. After it, no count
  // in the header is larger than the record.
  bool open();

  std::span<const Word> words() const { return words_; }
  const Header& header() const { return header_; }
  std::string_view name() const { return name_; }
  StorageView storage(uint32_t index) const {
    return {storages_[2 * size_t{index}], storages_[2 * size_t{index} + 1]};
  }

  // The words of the arguments, of their values where those are apart, and of
  // their tensors' offsets, before anything was read.
  std::span<const Word> argument_words() const { return arguments_; }
  std::span<const Word> value_words() const { return values_; }
  std::span<const Word> offset_words() const { return offsets_; }
  // The same of the outputs.
  std::span<const Word> output_words() const { return outputs_; }
  std::span<const Word> output_offset_words() const { return output_offsets_; }

  // The next argument, or, after the head of a list of arguments, its next
  // element, which belongs into such a list and is no list itself; or, after
  // the head of a composite, its next part, as parts_of() says. False
  // if there is none or it is malformed; nothing more may be read then. A
  // tensor's storage exists; whether it holds the tensor, fits() tells.
  bool next_argument(Argument* argument);
  bool next_output(TensorView* tensor);

  // Whether everything was read.
  bool at_end() const {
    return arguments_.empty() && values_.empty() && offsets_.empty() &&
           outputs_.empty() && output_offsets_.empty();
  }

  // Whether the tensor, one that this reader gave, stays within its storage,
  // with elements of `itemsize` bytes, and can count them. One without elements
  // does, wherever it begins.
  bool fits(const TensorView& tensor, uint64_t itemsize) const;

 private:
  static bool take(std::span<const Word>* words, size_t count,
                   std::span<const Word>* taken);
  static bool take_first(std::span<const Word>* words, FirstWord* first);
  bool read_tensor(const FirstWord& first, std::span<const Word>* words,
                   std::span<const Word>* offsets, TensorView* tensor) const;
  bool take_values(size_t count, std::span<const Word>* taken);
  bool is_due(Tag tag);
  bool read_body(const FirstWord& first, Argument* argument);
  bool read_number(const FirstWord& first, Argument* argument);

  std::span<const Word> words_;
  Header header_{};
  std::span<const Word> arguments_;
  std::span<const Word> values_;
  std::span<const Word> offsets_;  // of the arguments
  std::span<const Word> output_offsets_;
  std::span<const Word> storages_;
  std::span<const Word> outputs_;
  std::string_view name_;
  Tag list_ = Tag::kNone;       // the list that is being read
  uint32_t elements_left_ = 0;  // how much of it
  std::span<const Tag> parts_;  // of the composite that is being read
  Magnitudes magnitudes_;       // of the numbers so far
};

}  // namespace torch_openreg::record
