#include "backend/runtime/executor.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "openreg/module.h"

namespace torch_openreg {

namespace {

constexpr std::array<const char*, static_cast<size_t>(Kernel::kCount)> kNames =
    {"copy_tensor"};

// Beside this library, wherever that is.
std::string module_path() {
  Dl_info info{};
  TORCH_CHECK(dladdr(reinterpret_cast<void*>(&launch), &info) != 0,
              "cannot find the library of the OpenReg backend");
  const std::string own = info.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + "openreg_executor.so";
}

// The executor on one device. Thread-safe.
class LoadedExecutor {
 public:
  // The device must be current.
  orFunction_t function(Kernel kernel) {
    std::atomic<orFunction_t>& slot = functions_[static_cast<size_t>(kernel)];
    const orFunction_t found = slot.load(std::memory_order_acquire);
    if (C10_LIKELY(found != nullptr)) return found;
    const std::lock_guard lock(mutex_);
    if (module_ == nullptr) {
      OPENREG_CHECK(orModuleLoad(&module_, module_path().c_str()));
    }
    orFunction_t function = nullptr;
    OPENREG_CHECK(orModuleGetFunction(&function, module_,
                                      kNames[static_cast<size_t>(kernel)]));
    slot.store(function, std::memory_order_release);
    return function;
  }

 private:
  std::mutex mutex_;
  orModule_t module_ = nullptr;  // guarded by mutex_; never unloaded
  std::array<std::atomic<orFunction_t>, kNames.size()> functions_{};
};

LoadedExecutor& executor_of(c10::DeviceIndex device) {
  static auto& executors = *new std::array<LoadedExecutor, kMaxDevices>;
  return executors.at(static_cast<size_t>(device));
}

}  // namespace

void launch(Kernel kernel, const void* args, size_t size,
            const OpenRegStream& stream, bool cheap) {
  const DeviceScope scope(stream.device_index());
  const orLaunchConfig_t config{sizeof config, stream.handle(),
                                cheap ? orLaunchCheap : orLaunchDefault};
  OPENREG_CHECK(orLaunchKernelEx(
      &config, executor_of(stream.device_index()).function(kernel), args,
      size));
}

}  // namespace torch_openreg
