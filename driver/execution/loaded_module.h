// Kernel modules that are loaded into this process.
#pragma once

#include <memory>

#include "core/engine.h"
#include "openreg/kernel.h"

namespace openreg {

// A kernel whose code is in this process; keeps its module loaded.
class LoadedKernel final : public Kernel {
 public:
  LoadedKernel(std::string name, orKernelFn code,
               std::shared_ptr<const void> module)
      : Kernel(std::move(name)), code_(code), module_(std::move(module)) {}

  orError_t run(orKernelContext& context) const { return code_(&context); }

 private:
  const orKernelFn code_;
  const std::shared_ptr<const void> module_;  // null for a built-in kernel
};

// Loads the shared object at `path`; messages call it `shown`.
//   orErrorInvalidValue  it cannot be loaded, or is no module of this ABI
Status load_shared_object(const char* path, const char* shown,
                          std::shared_ptr<ModuleImage>* image);

// The kernels that are part of the driver.
std::shared_ptr<ModuleImage> make_builtin_image();

}  // namespace openreg
