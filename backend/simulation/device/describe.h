// Launch records for people.
#pragma once

#include <string>

#include "backend/simulation/record/reader.h"

namespace torch_openreg::device {

// "aten::index_select(Float[3, 4], 0, Long[2])". The reader is at its start, as
// open() leaves it; what it can't read ends the text.
std::string describe_call(record::Reader reader);

}  // namespace torch_openreg::device
