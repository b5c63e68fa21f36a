// The fuzzer's entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/simulation/record/format.h"

namespace torch_openreg::record::test {

// Opens and reads all that a decoder would. Returns whether the bytes are a
// well-formed record. If they are, it also checks what a decoder relies on, and
// fails the test if it does not hold: no count is larger than the record, no
// list is inside another, composites have the parts of their kind, fits()
// agrees with exact arithmetic, and the arguments written again are the same
// words.
bool fuzz_record(const uint8_t* data, size_t size);

inline bool is_well_formed(std::span<const Word> record) {
  return fuzz_record(reinterpret_cast<const uint8_t*>(record.data()),
                     record.size_bytes());
}

}  // namespace torch_openreg::record::test
