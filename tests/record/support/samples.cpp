#include "support/samples.h"

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

namespace torch_openreg::record::test {

namespace {

constexpr std::array<int64_t, 2> kSizes{4, 3};
constexpr std::array<int64_t, 2> kStrides{3, 1};
constexpr uint64_t kBytes = 64;
constexpr uint32_t kCompositeKinds =
    static_cast<uint32_t>(Composite::kLast) + 1;

TensorShape matrix(int64_t offset = 0, uint8_t flags = kReadOnly) {
  return {.dtype = 6,
          .flags = flags,
          .offset = offset,
          .sizes = kSizes,
          .strides = kStrides};
}

void add_outputs(Writer& writer, size_t count) {
  const std::array<Word, 5> tensor{FirstWord{Tag::kTensor, 6, 0, 2, 0}.pack(),
                                   4, 3, 3, 1};
  for (size_t i = 0; i < count; ++i) {
    writer.add_output(tensor, 0x9000 + 0x100 * i, 48);
  }
}

void add_scalars(Writer& writer) {
  writer.add_none();
  writer.add_undefined();
  writer.add_device();
  writer.add_host_value(7, kWrappedNumber, 0x3ff0000000000000, 0);
  writer.add_int(-7);
  writer.add_unsigned(~uint64_t{7});
  writer.add_float(0.5);
  writer.add_bool(true);
  writer.add_complex(1, -2);
  writer.add_string("reflect!!");
  writer.add_generator(3);
}

void add_lists(Writer& writer) {
  writer.add_ints(std::array<int64_t, 3>{1, -1, 2});
  writer.add_floats(std::array<double, 2>{0.25, -0.25});
  writer.begin_bools(2);
  writer.add_word(1);
  writer.add_word(0);
  writer.begin_list(Tag::kTensorList, 2);
  writer.add_tensor(matrix(), writer.add_storage(0x1000, kBytes));
  writer.add_tensor(matrix(2), writer.add_storage(0x2000, kBytes));
  writer.begin_list(Tag::kOptionalTensorList, 4);
  writer.add_undefined();
  writer.add_none();
  writer.add_host_value(4, 0, 1, 0);
  writer.add_tensor(matrix(), writer.add_storage(0x1000, kBytes));
  writer.begin_list(Tag::kScalarList, 4);
  writer.add_int(1);
  writer.add_float(2);
  writer.add_bool(false);
  writer.add_complex(3, 4);
}

void add_many_dimensions(Writer& writer) {
  const std::vector<int64_t> sizes(kMaxDimensions, 1);
  writer.add_tensor(
      {.dtype = 6, .flags = 0, .offset = 0, .sizes = sizes, .strides = sizes},
      writer.add_storage(0x3000, kBytes));
}

// The next part of a composite.
void add_part(Writer& writer, Tag tag) {
  switch (tag) {
    case Tag::kTensor:
      return writer.add_tensor(matrix(), writer.add_storage(0x5000, kBytes));
    case Tag::kIntList:
      return writer.add_ints(kSizes);
    case Tag::kInt:
      return writer.add_int(2);
    case Tag::kFloat:
      return writer.add_float(0.125);
    default:
      return writer.add_bool(true);
  }
}

void add_composite(Writer& writer, Composite kind) {
  writer.begin_composite(kind);
  for (const Tag tag : parts_of(kind)) add_part(writer, tag);
}

void add_composites(Writer& writer) {
  for (unsigned kind = 0; kind <= static_cast<unsigned>(Composite::kLast);
       ++kind) {
    add_composite(writer, static_cast<Composite>(kind));
  }
  writer.begin_list(Tag::kTensorList, 3);
  add_composite(writer, Composite::kCoo);
  writer.add_undefined();
  add_composite(writer, Composite::kPerChannel);
}

// Arguments, and how many they are.
struct Call {
  uint32_t count;
  std::function<void(Writer&)> add;
};

std::vector<Call> calls() {
  return {
      {0, [](Writer&) {}},
      {1, [](Writer& w) { w.add_none(); }},
      {1, [](Writer& w) { w.add_undefined(); }},
      {1, [](Writer& w) { w.add_device(); }},
      {1, [](Writer& w) { w.add_host_value(7, kWrappedNumber, 1, 2); }},
      {2, [](Writer& w) { w.add_int(0), w.add_int(-1); }},
      {2, [](Writer& w) { w.add_float(NAN), w.add_float(-0.0); }},
      {2, [](Writer& w) { w.add_bool(false), w.add_bool(true); }},
      {3,
       [](Writer& w) {
         w.add_number(0.25), w.add_number(int64_t{-3}), w.add_number(NAN);
       }},
      {1, [](Writer& w) { w.add_complex(INFINITY, 0); }},
      {3,
       [](Writer& w) {
         w.add_string(""), w.add_string("mean"), w.add_string("12345678");
       }},
      {1, [](Writer& w) { w.add_generator(~0ULL); }},
      {6,
       [](Writer& w) {
         w.add_ints({}), w.add_floats({}), w.begin_bools(0);
         w.begin_list(Tag::kTensorList, 0);
         w.begin_list(Tag::kOptionalTensorList, 0);
         w.begin_list(Tag::kScalarList, 0);
       }},
      {2,
       [](Writer& w) {
         w.add_tensor(matrix(), w.add_storage(0x1000, kBytes));
         w.add_tensor(matrix(4, kConjugate | kNegative | kWrappedNumber),
                      w.add_storage(0x1000, kBytes));
       }},
      {1, add_many_dimensions},
      {11, add_scalars},
      {6, add_lists},
      {kCompositeKinds + 1, add_composites},
  };
}

}  // namespace

Record finish(const Writer& writer, uint32_t argument_count, uint16_t flags,
              std::string_view name) {
  Words words;
  writer.finish(name, id_of(name), kSettings, flags, argument_count, &words);
  return {words.view().begin(), words.view().end()};
}

Record full_record(bool values_apart) {
  Writer writer(values_apart);
  writer.add_tensor(matrix(1), writer.add_storage(0x1000, kBytes));
  add_scalars(writer);
  add_lists(writer);
  writer.add_tensor(matrix(0, 0), writer.add_storage(0x4000, kBytes));
  add_composite(writer, Composite::kPerTensor);
  add_outputs(writer, 2);
  return finish(writer, kFullArguments);
}

std::vector<Record> sample_records() {
  std::vector<Record> records;
  for (const bool values_apart : {false, true}) {
    records.push_back(full_record(values_apart));
    for (const Call& call : calls()) {
      for (const size_t outputs : {0, 1, 3}) {
        Writer writer(values_apart);
        call.add(writer);
        add_outputs(writer, outputs);
        records.push_back(finish(writer, call.count,
                                 outputs == 0 ? kKeepOutputs : 0,
                                 outputs == 1 ? "aten::abs" : kName));
      }
    }
  }
  return records;
}

Header header_of(const Record& record) {
  Header header;
  std::memcpy(&header, record.data(), sizeof header);
  return header;
}

Record with_header(Record record, const Header& header) {
  std::memcpy(record.data(), &header, sizeof header);
  return record;
}

size_t values_at(const Record& record) {
  return kArgumentsAt + header_of(record).argument_words;
}

size_t offsets_at(const Record& record) {
  return values_at(record) + header_of(record).value_words;
}

size_t storages_at(const Record& record) {
  return offsets_at(record) + header_of(record).offset_words;
}

size_t outputs_at(const Record& record) {
  return storages_at(record) + 2 * size_t{header_of(record).storage_count};
}

size_t name_at(const Record& record) {
  return outputs_at(record) + header_of(record).output_words;
}

}  // namespace torch_openreg::record::test
