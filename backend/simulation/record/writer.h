// Writes launch records.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/simulation/record/format.h"
#include "backend/simulation/record/magnitude.h"
#include "backend/simulation/record/words.h"

namespace torch_openreg::record {

// The number that stands for an operator: a hash of its full name.
uint64_t id_of(std::string_view name);

// A tensor as the writer takes it.
struct TensorShape {
  uint8_t dtype = 0;
  uint8_t flags = 0;
  int64_t offset = 0;  // in elements, from the start of its storage
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};

// Collects the arguments of one call. First all arguments, then storages and
// outputs, then finish(). Not thread-safe.
class Writer {
 public:
  // With `values_apart`, values are no part of the key.
  explicit Writer(bool values_apart) : values_apart_(values_apart) {}

  void add_none() { first(Tag::kNone); }
  void add_undefined() { first(Tag::kUndefined); }
  void add_device() { first(Tag::kDevice); }
  // One of more than kMaxDimensions makes a record that no reader accepts.
  void add_tensor(const TensorShape& shape, uint32_t storage);
  // One value of at most 16 bytes. No flag but kWrappedNumber.
  void add_host_value(uint8_t dtype, uint8_t flags, Word low, Word high);
  void add_int(int64_t value);
  void add_unsigned(uint64_t value);
  void add_float(double value);
  // A number that an operator takes as one: where values are apart, only its
  // magnitude is part of the key.
  void add_number(double value) {
    if (!values_apart_) return add_float(value);
    first(Tag::kFloatValue, magnitudes_.of(value));
    values_.push(std::bit_cast<Word>(value));
  }
  void add_number(int64_t value) {
    if (!values_apart_) return add_int(value);
    first(Tag::kIntValue, magnitudes_.of(value));
    values_.push(static_cast<Word>(value));
  }
  void add_bool(bool value) { first(Tag::kBool, value ? 1 : 0); }
  void add_complex(double real, double imaginary);
  void add_string(std::string_view text);
  void add_generator(uint64_t id);
  void add_ints(std::span<const int64_t> values);
  void add_floats(std::span<const double> values);
  // The head of a list of so many bools; they follow as words.
  void begin_bools(size_t length) { begin_list(Tag::kBoolList, length); }
  void add_word(Word word) { arguments_.push(word); }
  // The head of a list; its elements follow as arguments.
  void begin_list(Tag tag, size_t length) {
    first(tag, static_cast<uint32_t>(length));
  }
  // The head of a composite; its parts follow as arguments.
  void begin_composite(Composite kind) {
    first(Tag::kComposite, static_cast<uint32_t>(kind));
  }

  // The storage at `address`: the same number for the same address, which holds
  // the larger of their bytes (imported memory may have two storages).
  uint32_t add_storage(uint64_t address, uint64_t bytes);

  // The arguments so far: what decides the metadata of the outputs.
  std::span<const Word> key() const { return arguments_.view(); }
  // The same without sizes and strides and, if `with_numbers` is false,
  // without numbers: calls that differ only in those are checked alike, except
  // for what depends on them. No tensor of more than kMaxDimensions may have
  // been added.
  void write_signature(bool with_numbers, Words* signature) const;
  // The offsets of the tensors so far, which decide only whether tensors of one
  // storage overlap.
  std::span<const Word> offsets() const { return offsets_.view(); }
  bool has_shared_storage() const { return has_shared_storage_; }

  // An output in a storage of its own. `tensor` is as add_tensor writes it,
  // without its storage.
  void add_output(std::span<const Word> tensor, uint64_t address,
                  uint64_t bytes);

  // Puts the record together. `name` is the operator's, `argument_count` how
  // many arguments were added (elements of lists not counted).
  void finish(std::string_view name, uint64_t operator_id, uint64_t settings,
              uint16_t flags, uint32_t argument_count, Words* record) const;

 private:
  size_t body_words(const FirstWord& first) const;
  void first(Tag tag, uint32_t number = 0, uint8_t dtype = 0, uint8_t flags = 0,
             uint8_t dimensions = 0) {
    arguments_.push(FirstWord{tag, dtype, flags, dimensions, number}.pack());
  }
  void value(Word word) { (values_apart_ ? values_ : arguments_).push(word); }

  const bool values_apart_;
  Words arguments_;
  Words values_;
  Words offsets_;
  Words storages_;
  Words outputs_;
  Magnitudes magnitudes_;
  uint32_t output_count_ = 0;
  bool has_shared_storage_ = false;
};

}  // namespace torch_openreg::record
