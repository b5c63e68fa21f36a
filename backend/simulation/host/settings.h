// The process-wide settings of the moment.
#pragma once

#include <cstdint>

namespace torch_openreg {

// As simulation/common/settings.h packs them. Those that decide metadata, and
// those of the thread, are read each time; the others as they were at the last
// refresh_settings(). Thread-safe.
uint64_t current_settings();

}  // namespace torch_openreg
