// Work for streams: launches in one line, marks that the host can look at, and
// the module of test_kernels.c.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/process.h"
#include "support/support.h"
#include "support/test_kernels.h"

namespace openreg::test {

// Launches "empty" of the current device.
orError_t launch_empty(orStream_t stream);

// Launches with orLaunchCheap.
orError_t launch_cheap(orFunction_t function, const void* args, size_t size,
                       orStream_t stream);
template <typename Args>
orError_t launch_cheap(orFunction_t function, const Args& args,
                       orStream_t stream) {
  return launch_cheap(function, &args, sizeof args, stream);
}

// Waits for all work of the current device without asking for its failures:
// orFree waits and reports nothing.
void settle();

// Waits until `stream` is idle without taking part in its work, as a
// synchronize would.
void await_idle(orStream_t stream);

// The number of devices; and how many kernels the current one runs at a time.
int device_count();
int place_count();

// A handle that the driver never gave out.
template <typename Handle>
Handle garbage_handle() {
  return reinterpret_cast<Handle>(uintptr_t{0x123456789abcdef0});
}

// A byte of pinned memory that a kernel sets, so that the host can see whether
// the kernel has run without waiting for it. Look only while a gate holds the
// kernel back, or after it is known to be over.
class Mark {
 public:
  Mark() : byte_(1) { byte_[0] = 0; }

  // Queues the kernel; it is of the current device.
  orError_t set_by(orStream_t stream) {
    return launch(builtin("fill"), args(), stream);
  }
  orError_t set_cheaply_by(orStream_t stream) {
    return launch_cheap(builtin("fill"), args(), stream);
  }
  bool is_set() { return byte_[0] == 1; }

 private:
  orTestingFillArgs args() const { return {byte_.get(), 1, 1}; }

  PinnedBuffer<unsigned char> byte_;
};

// A 32-bit word of pinned memory that host and kernels share while both run.
class SharedWord {
 public:
  SharedWord() : word_(1) { store(0); }
  uint32_t* get() const { return word_.get(); }
  uint32_t load() const {
    return std::atomic_ref<uint32_t>(*word_.get()).load();
  }
  void store(uint32_t value) {
    std::atomic_ref<uint32_t>(*word_.get()).store(value);
  }

 private:
  PinnedBuffer<uint32_t> word_;
};

// A module, test_kernels.c unless said otherwise, on the device that is
// current.
class TestModule {
 public:
  explicit TestModule(const char* path = OPENREG_TEST_MODULE) {
    OR_EXPECT_OK(orModuleLoad(&module_, path));
  }
  ~TestModule() {
    if (module_) OR_EXPECT_OK(orModuleUnload(module_));
  }
  TestModule(const TestModule&) = delete;
  TestModule& operator=(const TestModule&) = delete;

  orFunction_t operator[](const char* name) const {
    orFunction_t function = nullptr;
    OR_EXPECT_OK(orModuleGetFunction(&function, module_, name));
    return function;
  }
  operator orModule_t() const { return module_; }
  orModule_t release() { return std::exchange(module_, nullptr); }

 private:
  orModule_t module_ = nullptr;
};

// Ends a child that made its checks with EXPECT_*: its exit code.
int child_verdict();

// Runs a child and expects it to end with 0.
void expect_child_passes(
    const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& env);

}  // namespace openreg::test
