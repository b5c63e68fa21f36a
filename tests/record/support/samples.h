// Well-formed records, made by the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backend/simulation/record/format.h"
#include "backend/simulation/record/writer.h"

namespace torch_openreg::record::test {

using Record = std::vector<Word>;

inline constexpr std::string_view kName = "aten::add.Tensor";
inline constexpr uint64_t kSettings = 0x5e771295;

// What the writer holds, as a record.
Record finish(const Writer& writer, uint32_t argument_count, uint16_t flags = 0,
              std::string_view name = kName);

// A call with arguments of every kind and two outputs; the number of its
// arguments is kFullArguments.
Record full_record(bool values_apart);
inline constexpr uint32_t kFullArguments = 20;

// Records of every kind: each tag alone, empty lists and full ones, no
// arguments, many dimensions, shared storages, replies, calls that keep their
// outputs; values apart and in place.
std::vector<Record> sample_records();

// The header, to look at and to change.
Header header_of(const Record& record);
Record with_header(Record record, const Header& header);

// Where the parts begin.
inline constexpr size_t kArgumentsAt = kHeaderWords;
size_t values_at(const Record& record);
size_t offsets_at(const Record& record);
size_t storages_at(const Record& record);
size_t outputs_at(const Record& record);
size_t name_at(const Record& record);

}  // namespace torch_openreg::record::test
