// fork(): a child of a process that has used the driver is told so instead of
// hanging, and the parent doesn't notice.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/background.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using ForkTest = DriverTest;

bool message_says_fork() {
  return std::string(orGetLastErrorMessage()).find("fork") != std::string::npos;
}

// In a forked child: a call is refused because of the fork.
#define CHILD_CHECK_REFUSED(call)                 \
  do {                                            \
    CHILD_CHECK((call) == orErrorNotInitialized); \
    CHILD_CHECK(message_says_fork());             \
  } while (false)

TEST_F(ForkTest, TheChildIsRefusedWithAMessage) {
  Stream stream;
  Event event;
  DeviceBuffer<char> buffer(100);
  PinnedBuffer<char> pinned(100);
  const orFunction_t empty = builtin("empty");
  const auto body = [&] {
    int device = 0;
    void* ptr = nullptr;
    size_t size = 0;
    char byte = 0;
    orStream_t new_stream = nullptr;
    orDeviceProp properties{};
    orPointerAttributes attributes{};
    CHILD_CHECK_REFUSED(orGetDevice(&device));
    CHILD_CHECK_REFUSED(orSetDevice(0));
    CHILD_CHECK_REFUSED(orGetDeviceProperties(&properties, 0));
    CHILD_CHECK_REFUSED(orDeviceSynchronize());
    CHILD_CHECK_REFUSED(orDeviceReset());
    CHILD_CHECK_REFUSED(orMalloc(&ptr, 1));
    CHILD_CHECK_REFUSED(orMallocHost(&ptr, 1));
    CHILD_CHECK_REFUSED(orFree(buffer.get()));
    CHILD_CHECK_REFUSED(orFreeHost(pinned.get()));
    CHILD_CHECK_REFUSED(orMemGetInfo(&size, &size));
    CHILD_CHECK_REFUSED(orPointerGetAttributes(&attributes, buffer.get()));
    CHILD_CHECK_REFUSED(orMemcpy(&byte, buffer.get(), 1, orMemcpyDefault));
    CHILD_CHECK_REFUSED(orMemset(buffer.get(), 0, 1));
    CHILD_CHECK_REFUSED(orStreamCreate(&new_stream));
    CHILD_CHECK_REFUSED(orStreamQuery(stream));
    CHILD_CHECK_REFUSED(orStreamSynchronize(nullptr));
    CHILD_CHECK_REFUSED(orStreamDestroy(stream));
    CHILD_CHECK_REFUSED(orEventRecord(event, stream));
    CHILD_CHECK_REFUSED(orEventDestroy(event));
    CHILD_CHECK_REFUSED(orLaunchKernel(empty, nullptr, 0, stream));
    return 0;
  };
  EXPECT_EQ(run_forked(body), 0);
}

TEST_F(ForkTest, TheChildCanCountDevicesAndReadErrors) {
  const DeviceBuffer<char> buffer(1);
  const int count = device_count();
  const auto body = [count] {
    int number = -1;
    CHILD_CHECK(orGetDeviceCount(&number) == orSuccess);
    CHILD_CHECK(number == count);
    CHILD_CHECK(orDriverGetVersion(&number) == orSuccess);
    CHILD_CHECK(number == OPENREG_VERSION);
    void* ptr = nullptr;
    CHILD_CHECK(orMalloc(&ptr, 1) == orErrorNotInitialized);
    CHILD_CHECK(orPeekAtLastError() == orErrorNotInitialized);
    CHILD_CHECK(orGetLastError() == orErrorNotInitialized);
    CHILD_CHECK(orGetLastError() == orSuccess);
    CHILD_CHECK(std::string(orGetErrorName(orSuccess)) == "orSuccess");
    return 0;
  };
  EXPECT_EQ(run_forked(body), 0);
}

TEST_F(ForkTest, TheParentGoesOn) {
  const Stream stream;
  DeviceBuffer<char> buffer(100);
  Gate gate;
  gate.hold(stream);
  gate.await();
  OR_EXPECT_OK(
      launch(builtin("fill"), orTestingFillArgs{buffer.get(), 100, 5}, stream));
  EXPECT_EQ(run_forked([] { return 0; }), 0);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(buffer.values(), std::vector<char>(100, 5));
}

TEST_F(ForkTest, AChildOfABusyParentDoesNotHang) {
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  gate.await();
  OR_EXPECT_OK(launch_empty(stream));
  const auto body = [&] {
    CHILD_CHECK_REFUSED(orStreamSynchronize(stream));
    CHILD_CHECK_REFUSED(orDeviceSynchronize());
    return 0;
  };
  EXPECT_EQ(run_forked(body), 0);
}

TEST_F(ForkTest, AForkAtAnyMomentOfOtherThreadsIsSafe) {
  OR_EXPECT_OK(launch_empty(nullptr));  // a fork before the first use is fine
  std::atomic<bool> stop = false;
  const auto work = [&stop] {
    const Stream stream;
    while (!stop) {
      DeviceBuffer<char> buffer(5000);
      OR_EXPECT_OK(orMemsetAsync(buffer.get(), 1, 5000, stream));
      OR_EXPECT_OK(launch_empty(stream));
      void* refused = nullptr;
      OR_EXPECT_ERROR(orErrorOutOfMemory, orMalloc(&refused, size_t{1} << 60));
    }
  };
  Background first(work);
  Background second(work);
  const auto body = [] {
    void* ptr = nullptr;
    CHILD_CHECK_REFUSED(orMalloc(&ptr, 1));
    CHILD_CHECK_REFUSED(orDeviceSynchronize());
    return 0;
  };
  for (int i = 0; i < 50; ++i) EXPECT_EQ(run_forked(body), 0);
  stop = true;
}

OPENREG_CHILD(leave_a_fork_by_exit) {
  void* ptr = nullptr;
  CHILD_CHECK(orMalloc(&ptr, 1) == orSuccess);
  CHILD_CHECK(launch_empty(nullptr) == orSuccess);
  CHILD_CHECK(orDeviceSynchronize() == orSuccess);
  // The child runs the exit handlers and must not wait for the parent's
  // threads.
  const int code = run_forked([]() -> int { std::exit(7); });
  CHILD_CHECK(code == 7);
  CHILD_CHECK(orFree(ptr) == orSuccess);
  return 0;
}

// The leak check at the end of a forked child waits for ever if one of the
// parent's threads was allocating at the fork (GCC 12's sanitizer).
TEST_F(ForkTest, TheChildCanLeaveByExit) {
  expect_child_passes("leave_a_fork_by_exit",
                      {{"ASAN_OPTIONS", "detect_leaks=0"}});
}

// Allocates, runs a kernel and looks at the result.
int use_the_driver() {
  void* ptr = nullptr;
  char bytes[10] = {};
  CHILD_CHECK(orMalloc(&ptr, 10) == orSuccess);
  CHILD_CHECK(launch(builtin("fill"), orTestingFillArgs{ptr, 10, 3}, nullptr) ==
              orSuccess);
  CHILD_CHECK(orMemcpy(bytes, ptr, 10, orMemcpyDeviceToHost) == orSuccess);
  CHILD_CHECK(bytes[9] == 3);
  CHILD_CHECK(orFree(ptr) == orSuccess);
  return 0;
}

OPENREG_CHILD(fork_before_use) {
  CHILD_CHECK(run_forked(use_the_driver) == 0);
  CHILD_CHECK(use_the_driver() == 0);
  return 0;
}

TEST_F(ForkTest, AForkBeforeTheFirstUseIsFine) {
  expect_child_passes("fork_before_use", {});
}

OPENREG_CHILD(fork_after_counting) {
  int count = 0;
  CHILD_CHECK(orGetDeviceCount(&count) == orSuccess);
  CHILD_CHECK(orSetDevice(0) == orSuccess);
  CHILD_CHECK(run_forked(use_the_driver) == 0);
  CHILD_CHECK(use_the_driver() == 0);
  return 0;
}

TEST_F(ForkTest, AForkOfAParentThatOnlyCountedDevicesIsFine) {
  expect_child_passes("fork_after_counting", {});
}

OPENREG_CHILD(fork_twice) {
  CHILD_CHECK(use_the_driver() == 0);
  const int code = run_forked([] {
    return run_forked([] {
      void* ptr = nullptr;
      CHILD_CHECK_REFUSED(orMalloc(&ptr, 1));
      return 0;
    });
  });
  CHILD_CHECK(code == 0);
  return 0;
}

TEST_F(ForkTest, AGrandchildIsRefusedToo) {
  expect_child_passes("fork_twice", {});
}

}  // namespace
}  // namespace openreg::test
