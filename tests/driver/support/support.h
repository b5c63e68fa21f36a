// What the driver's tests share: checks with messages, owners for handles, and
// child processes for behaviour that needs an environment or a death of its
// own.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "openreg/openreg.h"
#include "openreg/testing.h"

namespace openreg::test {

// Describes a code with the thread's last message, for failed checks.
std::string describe(orError_t code);

}  // namespace openreg::test

#define OR_CHECK_CODE_(ASSERTION, expected, call)                    \
  do {                                                               \
    const orError_t or_code_ = (call);                               \
    ASSERTION(or_code_, expected)                                    \
        << #call << " gave " << ::openreg::test::describe(or_code_); \
  } while (false)

#define OR_ASSERT_OK(call) OR_CHECK_CODE_(ASSERT_EQ, orSuccess, call)
#define OR_EXPECT_OK(call) OR_CHECK_CODE_(EXPECT_EQ, orSuccess, call)
#define OR_EXPECT_ERROR(code, call) OR_CHECK_CODE_(EXPECT_EQ, code, call)

// The call fails with `code` and a message that contains `text`.
#define OR_EXPECT_ERROR_SAYS(code, text, call)                 \
  do {                                                         \
    OR_EXPECT_ERROR(code, call);                               \
    EXPECT_NE(std::string(orGetLastErrorMessage()).find(text), \
              std::string::npos)                               \
        << "the message is: " << orGetLastErrorMessage();      \
  } while (false)

namespace openreg::test {

// Every test ends on device 0 with no failure pending and as many live objects
// as it began with.
class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // For tests that leave objects behind on purpose (after a reset, say).
  void expect_leftovers() { check_leftovers_ = false; }

 private:
  orTestingCounters before_{};
  bool check_leftovers_ = true;
};

// Makes `device` current for the scope.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    OR_EXPECT_OK(orGetDevice(&before_));
    OR_EXPECT_OK(orSetDevice(device));
  }
  ~OnDevice() { OR_EXPECT_OK(orSetDevice(before_)); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

// A gate that opens and goes at the end of the scope.
class Gate {
 public:
  Gate() { OR_EXPECT_OK(orTestingGateCreate(&gate_)); }
  ~Gate() { OR_EXPECT_OK(orTestingGateDestroy(gate_)); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void hold(orStream_t stream, bool occupy = false) {
    OR_EXPECT_OK(orTestingGateHold(gate_, stream, occupy));
  }
  // Waits until `count` streams stand at the gate.
  void await(int count = 1) { OR_EXPECT_OK(orTestingGateAwait(gate_, count)); }
  void open() { OR_EXPECT_OK(orTestingGateOpen(gate_)); }

 private:
  orTestingGate_t gate_ = nullptr;
};

class Stream {
 public:
  explicit Stream(unsigned flags = orStreamNonBlocking, int priority = 0) {
    OR_EXPECT_OK(orStreamCreateWithPriority(&stream_, flags, priority));
  }
  ~Stream() {
    if (stream_) OR_EXPECT_OK(orStreamDestroy(stream_));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator orStream_t() const { return stream_; }
  orStream_t release() { return std::exchange(stream_, nullptr); }

 private:
  orStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = orEventDefault) {
    OR_EXPECT_OK(orEventCreateWithFlags(&event_, flags));
  }
  ~Event() {
    if (event_) OR_EXPECT_OK(orEventDestroy(event_));
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator orEvent_t() const { return event_; }
  orEvent_t release() { return std::exchange(event_, nullptr); }

 private:
  orEvent_t event_ = nullptr;
};

// Allocates on the current device, for tests that free it themselves or reset
// the device. Null if that fails.
char* device_malloc(size_t bytes);

// `count` bytes that differ from their neighbours and from other seeds.
std::vector<char> pattern(size_t count, unsigned seed = 1);

// What the driver holds right now.
orTestingCounters counters();

// `count` elements of device memory of the device that is current.
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t count) : count_(count) {
    OR_EXPECT_OK(orMalloc(reinterpret_cast<void**>(&data_), bytes()));
  }
  ~DeviceBuffer() { OR_EXPECT_OK(orFree(data_)); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* get() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }

  void set(const std::vector<T>& values) {
    OR_EXPECT_OK(orMemcpy(data_, values.data(), values.size() * sizeof(T),
                          orMemcpyHostToDevice));
  }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    OR_EXPECT_OK(orMemcpy(result.data(), data_, bytes(), orMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// `count` elements of pinned host memory.
template <typename T>
class PinnedBuffer {
 public:
  explicit PinnedBuffer(size_t count) : count_(count) {
    OR_EXPECT_OK(orMallocHost(reinterpret_cast<void**>(&data_), bytes()));
  }
  ~PinnedBuffer() { OR_EXPECT_OK(orFreeHost(data_)); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  T* get() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  size_t bytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// Finds a kernel of the built-in module on the current device.
orFunction_t builtin(const char* name);

// Launches a kernel with a struct as its arguments.
template <typename Args>
orError_t launch(orFunction_t function, const Args& args, orStream_t stream) {
  return orLaunchKernel(function, &args, sizeof args, stream);
}

// Launches "fail" on `stream`.
orError_t launch_failing(orStream_t stream, orError_t code,
                         const char* message);

// A log that kernels append to, in the order in which they run.
class DeviceLog {
 public:
  explicit DeviceLog(uint32_t capacity);
  // Queues a kernel that appends `value`.
  void append(uint32_t value, orStream_t stream);
  // Waits for the device and returns what was appended.
  std::vector<uint32_t> entries() const;

 private:
  uint32_t capacity_;
  DeviceBuffer<uint32_t> next_;
  DeviceBuffer<uint32_t> log_;
};

// How a child process ended.
struct ChildResult {
  int exit_code = -1;  // -1 if it was killed by a signal
  int signal = 0;
  std::string output;  // standard output and error together
};

// Runs the function registered by OPENREG_CHILD(name) in a new process of this
// program, with `env` set on top of this process's environment.
ChildResult run_child(
    const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& env = {});

// Registers a child; returns true so that it can initialise a variable.
bool register_child(const char* name, std::function<int()> body);

// Runs a registered child; called by main.
int child_main(const std::string& name);

// A longer soak runs the stress tests with a larger scale.
int stress_scale();

// True when the devices are processes of their own (OPENREG_DRIVER=isolated).
bool is_isolated();

// True when this build's sanitizer makes everything many times slower.
bool is_sanitized();

}  // namespace openreg::test

// Defines what run_child(name) runs; the value returned is the exit code.
#define OPENREG_CHILD(name)                                         \
  static int openreg_child_##name();                                \
  static const bool openreg_child_registered_##name =               \
      ::openreg::test::register_child(#name, openreg_child_##name); \
  static int openreg_child_##name()

// Inside a child: prints what failed and ends the child with code 1.
#define CHILD_CHECK(condition)                                               \
  do {                                                                       \
    if (!(condition)) {                                                      \
      std::fprintf(stderr,                                                   \
                   "%s:%d: CHILD_CHECK(%s) failed; last message: %s\n",      \
                   __FILE__, __LINE__, #condition, orGetLastErrorMessage()); \
      return 1;                                                              \
    }                                                                        \
  } while (false)
