// The launch record: an operator call as plain words, without PyTorch.
// docs/launch-record.md describes it for readers.
#pragma once

#include <cstdint>
#include <span>

namespace torch_openreg::record {

using Word = uint64_t;

inline constexpr uint32_t kMagic = 0x4f524c52;  // "RLRO" in memory
inline constexpr uint16_t kVersion = 3;

// The most that a reader accepts.
inline constexpr uint32_t kMaxDimensions = 64;
inline constexpr uint32_t kMaxStorages = 1U << 20;
inline constexpr uint32_t kMaxNameBytes = 1024;

// Every argument starts with one word of these fields, from the low bits up:
//   tag 8 | dtype 8 | flags 8 | dimensions 8 | number 32
// `number` is a storage, a length, or a small value.
enum class Tag : uint8_t {
  kNone = 0,
  kTensor = 1,       // number: storage; sizes, strides follow; 1 offset
  kUndefined = 2,    // a tensor that is not there
  kHostValue = 3,    // a tensor of one value that the host holds; 2 values
  kInt = 4,          // 1 word
  kFloat = 5,        // 1 value
  kBool = 6,         // number: 0 or 1
  kComplex = 7,      // 2 values
  kString = 8,       // number: bytes; padded to words
  kDevice = 9,       // where the operator runs
  kGenerator = 10,   // 1 value: its id
  kIntList = 11,     // number: length; that many words
  kFloatList = 12,   // number: length; that many values
  kBoolList = 13,    // number: length; a word each
  kTensorList = 14,  // number: length; that many arguments
  kOptionalTensorList = 15,
  kScalarList = 16,
  kComposite = 17,  // number: its kind; then its parts, as arguments
  kUnsigned = 18,   // 1 word: an integer that kInt is too small for
  // Numbers of which the key knows the magnitude alone, where values are apart.
  kFloatValue = 19,  // number: its magnitude; 1 value
  kIntValue = 20,    // the same
  kLast = kIntValue
};

// A tensor that is more than a storage and strides, by what it is made of. Its
// parts are always the same ones, in this order.
enum class Composite : uint8_t {
  kCoo = 0,  // sizes, whether it is coalesced; indices, values
  kCsr = 1,  // sizes; compressed indices, plain indices, values; so the next
  kCsc = 2,
  kBsr = 3,
  kBsc = 4,
  kNested = 5,      // buffer; dimensions, all sizes, all strides, offsets
  kQuantized = 6,   // bytes; sizes, strides, offset, dtype; so the next
  kPerTensor = 7,   // and scale, zero point
  kPerChannel = 8,  // and axis; scales, zero points
  kLast = kPerChannel
};

namespace parts {
inline constexpr Tag kCoo[] = {Tag::kIntList, Tag::kBool, Tag::kTensor,
                               Tag::kTensor};
inline constexpr Tag kCompressed[] = {Tag::kIntList, Tag::kTensor, Tag::kTensor,
                                      Tag::kTensor};
inline constexpr Tag kNested[] = {Tag::kTensor, Tag::kInt, Tag::kIntList,
                                  Tag::kIntList, Tag::kIntList};
inline constexpr Tag kQuantized[] = {Tag::kTensor, Tag::kIntList, Tag::kIntList,
                                     Tag::kInt, Tag::kInt};
inline constexpr Tag kPerTensor[] = {Tag::kTensor, Tag::kIntList, Tag::kIntList,
                                     Tag::kInt,    Tag::kInt,     Tag::kFloat,
                                     Tag::kInt};
inline constexpr Tag kPerChannel[] = {
    Tag::kTensor, Tag::kIntList, Tag::kIntList, Tag::kInt,
    Tag::kInt,    Tag::kInt,     Tag::kTensor,  Tag::kTensor};
}  // namespace parts

// The tags of its parts.
constexpr std::span<const Tag> parts_of(Composite kind) {
  switch (kind) {
    case Composite::kCoo:
      return parts::kCoo;
    case Composite::kCsr:
    case Composite::kCsc:
    case Composite::kBsr:
    case Composite::kBsc:
      return parts::kCompressed;
    case Composite::kNested:
      return parts::kNested;
    case Composite::kQuantized:
      return parts::kQuantized;
    case Composite::kPerTensor:
      return parts::kPerTensor;
    case Composite::kPerChannel:
      return parts::kPerChannel;
  }
  return {};
}

// Flags of tensors.
enum TensorFlags : uint8_t {
  kConjugate = 1,
  kNegative = 2,
  kWrappedNumber = 4,
  kReadOnly = 8,  // the operator does not write it
  kSame = 16,     // not a second tensor: the earlier one that looks like it
};
inline constexpr uint8_t kAllTensorFlags =
    kConjugate | kNegative | kWrappedNumber | kReadOnly | kSame;

// How the values of an operator (floats, host values, generators) are kept: in
// the arguments, where they are part of the key, or behind them, where the key
// does not see them.
enum RecordFlags : uint16_t {
  kValuesApart = 1,
  kKeepOutputs = 2,  // no outputs are prepared: keep and describe them
  kQuiet = 4,        // the host has given the operator's warnings already
  // A gradient will be asked for: some kernels for composites keep what it
  // needs.
  kNeedsGradient = 8,
  kFailed = 16,  // of a reply: its only result is what the operator threw
  // Nobody knows whether the arguments are good: what the operator throws is
  // replied, and no failure of the device.
  kUnchecked = 32,
  // Of a reply: it was too long, and waits for fetch_reply. Its settings are
  // the token, its only argument the bytes.
  kLong = 64,
};
inline constexpr uint16_t kAllRecordFlags = kValuesApart | kKeepOutputs |
                                            kQuiet | kNeedsGradient | kFailed |
                                            kUnchecked | kLong;

// The first words of a record. After it, in this order: `argument_words` of
// arguments, `value_words` of values, `offset_words` of offsets (in elements,
// one a tensor, those of outputs last), two words (address, bytes) a storage,
// `output_words` of outputs (each as a tensor argument), the name's bytes
// padded to words.
struct Header {
  uint32_t magic;
  uint16_t version;
  uint16_t flags;
  uint64_t operator_id;  // id_of(name)
  uint64_t settings;
  uint32_t argument_count;
  uint32_t argument_words;
  uint32_t value_words;
  uint32_t storage_count;
  uint32_t output_count;
  uint32_t output_words;
  uint32_t name_bytes;
  uint32_t offset_words;
};
static_assert(sizeof(Header) % sizeof(Word) == 0);
inline constexpr uint32_t kHeaderWords = sizeof(Header) / sizeof(Word);

struct FirstWord {
  Tag tag = Tag::kNone;
  uint8_t dtype = 0;
  uint8_t flags = 0;
  uint8_t dimensions = 0;
  uint32_t number = 0;

  Word pack() const {
    return static_cast<Word>(tag) | Word{dtype} << 8 | Word{flags} << 16 |
           Word{dimensions} << 24 | Word{number} << 32;
  }
  static FirstWord unpack(Word word) {
    return {static_cast<Tag>(word & 0xff), static_cast<uint8_t>(word >> 8),
            static_cast<uint8_t>(word >> 16), static_cast<uint8_t>(word >> 24),
            static_cast<uint32_t>(word >> 32)};
  }
};

}  // namespace torch_openreg::record
