#include "isolated/device/modules.h"

#include <dlfcn.h>

#include <utility>

#include "execution/loaded_module.h"

namespace openreg {

namespace {

Status unknown_module(uint64_t number) {
  return failure(orErrorInvalidHandle, "module %llu is not loaded",
                 static_cast<unsigned long long>(number));
}

}  // namespace

Modules::Modules() { modules_[0].image = make_builtin_image(); }

Status Modules::load(uint32_t number, const std::string& path,
                     const std::string& shown,
                     const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries) {
    // If it cannot be loaded, neither can the module, which says why.
    dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
  std::shared_ptr<ModuleImage> image;
  OPENREG_RETURN_IF_ERROR(
      load_shared_object(path.c_str(), shown.c_str(), &image));
  const MutexLock lock(mutex_);
  if (modules_.count(number) == 1) {
    return failure(orErrorInvalidValue, "module %u is loaded already", number);
  }
  modules_[number].image = std::move(image);
  return {};
}

Status Modules::unload(uint32_t number) {
  Loaded unloaded;  // goes after the lock
  const MutexLock lock(mutex_);
  const auto place = modules_.find(number);
  if (place == modules_.end() || number == 0) return unknown_module(number);
  unloaded = std::move(place->second);
  modules_.erase(place);
  return {};
}

Status Modules::find(uint32_t module, uint32_t number,
                     const std::string& name) {
  std::shared_ptr<ModuleImage> image;
  {
    const MutexLock lock(mutex_);
    const auto place = modules_.find(module);
    if (place == modules_.end()) return unknown_module(module);
    image = place->second.image;
  }
  std::shared_ptr<const Kernel> kernel;
  OPENREG_RETURN_IF_ERROR(image->find(name.c_str(), &kernel));
  const MutexLock lock(mutex_);
  const auto place = modules_.find(module);
  if (place == modules_.end()) return unknown_module(module);
  place->second.kernels[number] = std::move(kernel);
  return {};
}

std::shared_ptr<const Kernel> Modules::kernel(uint64_t module,
                                              uint64_t number) {
  const MutexLock lock(mutex_);
  const auto place = modules_.find(module);
  if (place == modules_.end()) return nullptr;
  const auto kernel = place->second.kernels.find(number);
  return kernel != place->second.kernels.end() ? kernel->second : nullptr;
}

}  // namespace openreg
