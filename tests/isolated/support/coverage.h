// Which parts of the command reader have run: the reader's files are compiled so
// that every branch reports itself here.
#pragma once

#include <cstddef>

namespace openreg::test {

// How many different places have run since the program started.
size_t covered_places();

}  // namespace openreg::test
