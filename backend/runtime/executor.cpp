#include "backend/runtime/executor.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include "backend/executor/failure.h"
#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "openreg/module.h"

namespace torch_openreg {

namespace {

constexpr std::array<const char*, static_cast<size_t>(Kernel::kCount)> kNames =
    {"copy_tensor",   "run_operator",  "fetch_outputs",
     "set_generator", "get_generator", "drop_generator"};

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

  // The device has unloaded it.
  void forget() {
    const std::lock_guard lock(mutex_);
    module_ = nullptr;
    for (std::atomic<orFunction_t>& slot : functions_) slot.store(nullptr);
  }

 private:
  std::mutex mutex_;
  orModule_t module_ = nullptr;  // guarded by mutex_
  std::array<std::atomic<orFunction_t>, kNames.size()> functions_{};
};

LoadedExecutor& executor_of(c10::DeviceIndex device) {
  static auto& executors = *new std::array<LoadedExecutor, kMaxDevices>;
  return executors.at(static_cast<size_t>(device));
}

// The failure of a kernel that has run before the launch returned is the
// exception that it threw.
void check_launch(orError_t code) {
  if (C10_LIKELY(code == orSuccess)) return;
  const std::string message = orGetLastErrorMessage();
  const bool is_own =
      message.find(OPENREG_EARLIER_FAILURE) == std::string::npos;
  if (code == orErrorLaunchFailure && is_own) {
    orGetLastError();
    rethrow_failure(message);
  }
  OPENREG_CHECK(code);
}

}  // namespace

void launch(Kernel kernel, const void* args, size_t size,
            const OpenRegStream& stream, bool cheap) {
  const DeviceScope scope(stream.device_index());
  launch_here(kernel, args, size, stream, cheap);
}

void launch_here(Kernel kernel, const void* args, size_t size,
                 const OpenRegStream& stream, bool cheap) {
  const orLaunchConfig_t config{sizeof config, stream.handle(),
                                cheap ? orLaunchCheap : orLaunchDefault};
  check_launch(orLaunchKernelEx(
      &config, executor_of(stream.device_index()).function(kernel), args,
      size));
}

size_t launch_and_wait(Kernel kernel, const void* args, size_t size,
                       const OpenRegStream& stream, void* reply,
                       size_t reply_capacity) {
  const DeviceScope scope(stream.device_index());
  size_t reply_size = 0;
  check_launch(orLaunchKernelSync(
      executor_of(stream.device_index()).function(kernel), args, size,
      stream.handle(), reply, reply_capacity, &reply_size));
  return reply_size;
}

void forget_executor(c10::DeviceIndex device) { executor_of(device).forget(); }

}  // namespace torch_openreg
