// The process-wide settings of the moment.
#pragma once

#include <cstdint>

namespace torch_openreg {

// As executor/settings.h packs them.
uint64_t current_settings();

}  // namespace torch_openreg
