#include "backend/simulation/host/executor.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "backend/simulation/common/attach_message.h"
#include "backend/simulation/common/failure.h"
#include "backend/simulation/record/format.h"
#include "openreg/device.h"
#include "openreg/module.h"
#include "openreg/stream.h"

namespace torch_openreg {

namespace {

constexpr std::array<const char*, static_cast<size_t>(ExecutorKernel::kCount)>
    kNames = {"copy_tensor",   "run_operator",   "fetch_outputs",
              "drop_outputs",  "report_failure", "fetch_reply",
              "set_generator", "get_generator",  "drop_generator"};

// Beside this library, wherever that is.
std::string module_path() {
  Dl_info info{};
  TORCH_CHECK(dladdr(reinterpret_cast<void*>(&launch), &info) != 0,
              "cannot find the library of the OpenReg backend");
  const std::string own = info.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + "openreg_executor.so";
}

// A stream for a single question. Those of the program may be held up, so it
// waits for none of them.
class OwnStream {
 public:
  OwnStream() {
    OPENREG_CHECK(orStreamCreateWithFlags(&stream_, orStreamNonBlocking));
  }
  ~OwnStream() { OPENREG_WARN(orStreamDestroy(stream_)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  orStream_t get() const { return stream_; }

 private:
  orStream_t stream_ = nullptr;
};

// The executor on one device. Thread-safe.
class LoadedExecutor {
 public:
  // The device must be current.
  orFunction_t function(ExecutorKernel kernel) {
    std::atomic<orFunction_t>& slot = functions_[static_cast<size_t>(kernel)];
    const orFunction_t found = slot.load(std::memory_order_acquire);
    if (C10_LIKELY(found != nullptr)) return found;
    const std::lock_guard lock(mutex_);
    load();
    const orFunction_t function = find(kNames[static_cast<size_t>(kernel)]);
    slot.store(function, std::memory_order_release);
    return function;
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    for (auto& slot : functions_) slot.store(nullptr);
    operators_.clear();
    module_ = nullptr;
  }

  bool has_operator(uint64_t id) {
    const std::lock_guard lock(mutex_);
    load();
    return std::ranges::binary_search(operators_, id);
  }

 private:
  void load() {
    if (module_ != nullptr) return;
    OPENREG_CHECK(orModuleLoad(&module_, module_path().c_str()));
    operators_ = attach();
  }

  orFunction_t find(const char* name) {
    orFunction_t function = nullptr;
    OPENREG_CHECK(orModuleGetFunction(&function, module_, name));
    return function;
  }

  // Introduces this process; returns the operators that the device has.
  std::vector<uint64_t> attach() {
    constexpr size_t kMost = 65536;
    const AttachMessage message{record::kVersion,
                                static_cast<uint64_t>(getpid())};
    const OwnStream stream;
    std::vector<uint64_t> ids(kMost);
    size_t bytes = 0;
    OPENREG_CHECK(orLaunchKernelSync(find("attach"), &message, sizeof message,
                                     stream.get(), ids.data(),
                                     ids.size() * sizeof ids[0], &bytes));
    ids.resize(bytes / sizeof ids[0]);
    ids.shrink_to_fit();
    return ids;
  }

  std::mutex mutex_;
  orModule_t module_ = nullptr;      // guarded by mutex_; ends with the device
  std::vector<uint64_t> operators_;  // guarded by mutex_; sorted
  std::array<std::atomic<orFunction_t>, kNames.size()> functions_{};
};

LoadedExecutor& executor_of(c10::DeviceIndex device) {
  static auto& executors = *new std::array<LoadedExecutor, OPENREG_MAX_DEVICES>;
  return executors.at(static_cast<size_t>(device));
}

[[noreturn]] void fail(orError_t code, const char* call) {
  detail::throw_error(code, call,
                      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)});
}

// The failure of a kernel that has run before the call returned is the
// exception that it threw.
[[noreturn]] void throw_failure(orError_t code, const char* call) {
  const std::string message = orGetLastErrorMessage();
  const bool is_own =
      message.find(OPENREG_EARLIER_FAILURE) == std::string::npos;
  if (code == orErrorAssert && is_own) {
    orGetLastError();
    rethrow_failure(message);
  }
  fail(code, call);
}

bool failures_stay(c10::DeviceIndex device) {
  orDeviceProp properties{};
  OPENREG_CHECK(orGetDeviceProperties(&properties, device));
  return properties.failuresStay != 0;
}

// Where a failure breaks the device, as on a GPU, it is no exception of the
// CPU's either.
void check_launch(orError_t code, c10::DeviceIndex device) {
  if (C10_LIKELY(code == orSuccess)) return;
  if (code == orErrorAssert && failures_stay(device)) {
    fail(code, "orLaunchKernelEx");
  }
  throw_failure(code, "orLaunchKernelEx");
}

unsigned flags_of(Length length) {
  switch (length) {
    case Length::kCheap:
      return orLaunchCheap;
    case Length::kShort:
      return orLaunchShort;
    case Length::kLong:
      break;
  }
  return orLaunchDefault;
}

orLaunchConfig_t config_of(const OpenRegStream& stream, Length length) {
  return {sizeof(orLaunchConfig_t), stream.handle(), flags_of(length)};
}

}  // namespace

void launch(ExecutorKernel kernel, const void* args, size_t size,
            const OpenRegStream& stream, Length length) {
  const DeviceScope scope(stream.device_index());
  launch_here(kernel, args, size, stream, length);
}

void launch_here(ExecutorKernel kernel, const void* args, size_t size,
                 const OpenRegStream& stream, Length length) {
  const orLaunchConfig_t config = config_of(stream, length);
  check_launch(orLaunchKernelEx(
                   &config, executor_of(stream.device_index()).function(kernel),
                   args, size),
               stream.device_index());
}

void forget_executor(c10::DeviceIndex device) { executor_of(device).forget(); }

bool has_operator(c10::DeviceIndex device, uint64_t id) {
  return executor_of(device).has_operator(id);
}

size_t launch_and_wait(ExecutorKernel kernel, const void* args, size_t size,
                       const OpenRegStream& stream, Length length, void* reply,
                       size_t reply_capacity) {
  const DeviceScope scope(stream.device_index());
  const orLaunchConfig_t config = config_of(stream, length);
  size_t reply_size = 0;
  const orError_t code = orLaunchKernelSyncEx(
      &config, executor_of(stream.device_index()).function(kernel), args, size,
      reply, reply_capacity, &reply_size);
  if (C10_UNLIKELY(code != orSuccess)) {
    throw_failure(code, "orLaunchKernelSyncEx");
  }
  return reply_size;
}

}  // namespace torch_openreg
