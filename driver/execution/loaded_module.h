// Kernel modules that are loaded into this process.
#pragma once

#include <memory>

#include "core/hardware.h"

namespace openreg {

// Loads the shared object at `path`; messages call it `shown`.
//   orErrorInvalidValue  it cannot be loaded, or is no module of this ABI
Status load_shared_object(const char* path, const char* shown,
                          std::shared_ptr<ModuleImage>* image);

// The kernels that are part of the driver.
std::shared_ptr<ModuleImage> make_builtin_image();

}  // namespace openreg
