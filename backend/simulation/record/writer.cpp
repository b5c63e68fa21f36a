#include "backend/simulation/record/writer.h"

#include <algorithm>

namespace torch_openreg::record {

uint64_t id_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

void Writer::add_tensor(const TensorShape& shape, uint32_t storage) {
  // More dimensions than the field can tell must not become fewer.
  constexpr size_t kMost = 0xff;
  static_assert(kMost > kMaxDimensions);
  first(Tag::kTensor, storage, shape.dtype, shape.flags,
        static_cast<uint8_t>(std::min(shape.sizes.size(), kMost)));
  offsets_.push(static_cast<Word>(shape.offset));
  arguments_.append(shape.sizes);
  arguments_.append(shape.strides);
}

void Writer::add_host_value(uint8_t dtype, uint8_t flags, Word low, Word high) {
  first(Tag::kHostValue, 0, dtype, flags);
  value(low);
  value(high);
}

void Writer::add_int(int64_t number) {
  first(Tag::kInt);
  arguments_.push(static_cast<Word>(number));
}

void Writer::add_unsigned(uint64_t number) {
  first(Tag::kUnsigned);
  arguments_.push(number);
}

void Writer::add_float(double number) {
  first(Tag::kFloat);
  value(std::bit_cast<Word>(number));
}

void Writer::add_complex(double real, double imaginary) {
  first(Tag::kComplex);
  value(std::bit_cast<Word>(real));
  value(std::bit_cast<Word>(imaginary));
}

void Writer::add_string(std::string_view text) {
  first(Tag::kString, static_cast<uint32_t>(text.size()));
  arguments_.append_text(text);
}

void Writer::add_generator(uint64_t id) {
  first(Tag::kGenerator);
  value(id);
}

void Writer::add_ints(std::span<const int64_t> values) {
  begin_list(Tag::kIntList, values.size());
  arguments_.append(values);
}

void Writer::add_floats(std::span<const double> values) {
  begin_list(Tag::kFloatList, values.size());
  for (const double number : values) value(std::bit_cast<Word>(number));
}

uint32_t Writer::add_storage(uint64_t address, uint64_t bytes) {
  for (size_t i = 0; i < storages_.size(); i += 2) {
    if (storages_[i] == address && address != 0) {
      has_shared_storage_ = true;
      storages_[i + 1] = std::max(storages_[i + 1], Word{bytes});
      return static_cast<uint32_t>(i / 2);
    }
  }
  storages_.push(address);
  storages_.push(bytes);
  return static_cast<uint32_t>(storages_.size() / 2 - 1);
}

void Writer::write_signature(bool with_numbers, Words* signature) const {
  const auto is_kept = [with_numbers](Tag tag) {
    if (tag == Tag::kInt || tag == Tag::kIntList || tag == Tag::kFloat) {
      return with_numbers;
    }
    return tag != Tag::kTensor;
  };
  std::span<const Word> rest = key();
  while (!rest.empty()) {
    const FirstWord first = FirstWord::unpack(rest[0]);
    signature->push(rest[0]);
    rest = rest.subspan(1);
    const size_t body = body_words(first);
    if (is_kept(first.tag)) signature->append(rest.first(body));
    rest = rest.subspan(body);
  }
}

// How many words of the arguments follow the first one, elements of lists of
// arguments not counted.
size_t Writer::body_words(const FirstWord& first) const {
  const size_t values = values_apart_ ? 0 : 1;
  switch (first.tag) {
    case Tag::kTensor:
      return 2 * size_t{first.dimensions};
    case Tag::kInt:
    case Tag::kUnsigned:
      return 1;
    case Tag::kFloat:
    case Tag::kGenerator:
      return values;
    case Tag::kComplex:
    case Tag::kHostValue:
      return 2 * values;
    case Tag::kString:
      return (first.number + sizeof(Word) - 1) / sizeof(Word);
    case Tag::kIntList:
    case Tag::kBoolList:
      return first.number;
    case Tag::kFloatList:
      return first.number * values;
    case Tag::kNone:
    case Tag::kUndefined:
    case Tag::kBool:
    case Tag::kDevice:
    case Tag::kFloatValue:
    case Tag::kIntValue:
    case Tag::kTensorList:
    case Tag::kOptionalTensorList:
    case Tag::kScalarList:
    case Tag::kComposite:
      return 0;
  }
  return 0;
}

void Writer::add_output(std::span<const Word> tensor, uint64_t address,
                        uint64_t bytes) {
  FirstWord first = FirstWord::unpack(tensor[0]);
  first.number = static_cast<uint32_t>(storages_.size() / 2);
  storages_.push(address);
  storages_.push(bytes);
  outputs_.push(first.pack());
  outputs_.append(tensor.subspan(1));
  offsets_.push(0);
  ++output_count_;
}

void Writer::finish(std::string_view name, uint64_t operator_id,
                    uint64_t settings, uint16_t flags, uint32_t argument_count,
                    Words* record) const {
  const Header header{
      .magic = kMagic,
      .version = kVersion,
      .flags =
          static_cast<uint16_t>(flags | (values_apart_ ? kValuesApart : 0)),
      .operator_id = operator_id,
      .settings = settings,
      .argument_count = argument_count,
      .argument_words = static_cast<uint32_t>(arguments_.size()),
      .value_words = static_cast<uint32_t>(values_.size()),
      .storage_count = static_cast<uint32_t>(storages_.size() / 2),
      .output_count = output_count_,
      .output_words = static_cast<uint32_t>(outputs_.size()),
      .name_bytes = static_cast<uint32_t>(name.size()),
      .offset_words = static_cast<uint32_t>(offsets_.size())};
  std::memcpy(record->extend(kHeaderWords), &header, sizeof header);
  for (const Words* part :
       {&arguments_, &values_, &offsets_, &storages_, &outputs_}) {
    record->append(part->view());
  }
  record->append_text(name);
}

}  // namespace torch_openreg::record
