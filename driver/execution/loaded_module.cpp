#include "execution/loaded_module.h"

#include <dlfcn.h>

#include <string>

#include "kernels/builtin.h"
#include "openreg/kernel.h"

namespace openreg {

namespace {

const char* last_dl_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason given";
}

class SharedObject final : public ModuleImage,
                           public std::enable_shared_from_this<SharedObject> {
 public:
  SharedObject(std::string path, void* library)
      : path_(std::move(path)), library_(library) {}
  ~SharedObject() override { dlclose(library_); }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  Status check_version() const {
    const auto* version =
        static_cast<const unsigned int*>(dlsym(library_, "openreg_module_abi"));
    if (version == nullptr) {
      return failure(orErrorInvalidValue,
                     "path='%s' is not a kernel module: it has no "
                     "OPENREG_MODULE (openreg/kernel.h)",
                     path_.c_str());
    }
    return check_version(*version, "module");
  }

  Status find(const char* name,
              std::shared_ptr<const Kernel>* kernel) override {
    const std::string symbol = std::string("openreg_kernel_") + name;
    const auto* entry =
        static_cast<const orKernelEntry*>(dlsym(library_, symbol.c_str()));
    if (entry == nullptr) {
      return failure(orErrorInvalidValue,
                     "name='%s' is not a kernel of the module '%s'", name,
                     path_.c_str());
    }
    OPENREG_RETURN_IF_ERROR(check_version(entry->abiVersion, name));
    *kernel = std::make_shared<Kernel>(name, entry->run, shared_from_this());
    return {};
  }

 private:
  Status check_version(unsigned int version, const char* what) const {
    if (version == OPENREG_KERNEL_ABI_VERSION) return {};
    return failure(orErrorInvalidValue,
                   "path='%s' was built for version %u of the kernel ABI (%s), "
                   "and this driver has version %u: build it again",
                   path_.c_str(), version, what, OPENREG_KERNEL_ABI_VERSION);
  }

  const std::string path_;
  void* const library_;
};

class BuiltinImage final : public ModuleImage {
 public:
  Status find(const char* name,
              std::shared_ptr<const Kernel>* kernel) override {
    const orKernelFn code = find_builtin_kernel(name);
    if (code == nullptr) {
      return failure(orErrorInvalidValue,
                     "name='%s' is not a kernel of the built-in module", name);
    }
    *kernel = std::make_shared<Kernel>(name, code, nullptr);
    return {};
  }
};

}  // namespace

Status load_shared_object(const char* path, const char* shown,
                          std::shared_ptr<ModuleImage>* image) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return failure(orErrorInvalidValue, "path='%s' cannot be loaded: %s", shown,
                   last_dl_error());
  }
  auto object = std::make_shared<SharedObject>(shown, library);
  OPENREG_RETURN_IF_ERROR(object->check_version());
  *image = std::move(object);
  return {};
}

std::shared_ptr<ModuleImage> make_builtin_image() {
  return std::make_shared<BuiltinImage>();
}

}  // namespace openreg
