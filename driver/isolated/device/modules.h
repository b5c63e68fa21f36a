// The modules that a device process has loaded, by the program's numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/hardware.h"
#include "core/thread_safety.h"

namespace openreg {

// Thread-safe. Loading does not keep others from finding kernels.
class Modules {
 public:
  // The built-in module has number 0.
  Modules();

  // Loads the shared object at `path`, after `libraries`. `shown` is the path
  // for messages.
  //   orErrorInvalidValue  as load_shared_object; or the number is taken
  Status load(uint32_t number, const std::string& path,
              const std::string& shown,
              const std::vector<std::string>& libraries);
  // Kernels that run keep what they need.
  Status unload(uint32_t number);

  // Finds a kernel by name and gives it a number.
  Status find(uint32_t module, uint32_t number, const std::string& name);

  // Null if there is none of that number.
  std::shared_ptr<const Kernel> kernel(uint64_t module, uint64_t number);

 private:
  struct Loaded {
    std::shared_ptr<ModuleImage> image;
    std::map<uint64_t, std::shared_ptr<const Kernel>> kernels;
  };

  Mutex mutex_;
  std::map<uint64_t, Loaded> modules_ GUARDED_BY(mutex_);
};

}  // namespace openreg
