// What a kernel sees through its context, and what of it reaches the host:
// arguments, replies, pointers, failures, threads, cancellation.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "support/background.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using KernelTest = DriverTest;

// Launches with room for `capacity` bytes; the reply in `*reply`.
orError_t launch_sync(orFunction_t function, const void* args, size_t size,
                      size_t capacity, std::string* reply) {
  reply->assign(capacity, '?');
  size_t length = ~size_t{0};
  const orError_t code = orLaunchKernelSync(function, args, size, nullptr,
                                            reply->data(), capacity, &length);
  if (code == orSuccess) reply->resize(length);
  return code;
}

TEST_F(KernelTest, ArgumentsArriveByteForByte) {
  TestModule module;
  std::string reply;
  for (const size_t size : {0, 1, 7, 16, 100, 1000, 4000}) {
    std::string args(size, '\0');
    for (size_t i = 0; i < size; ++i) args[i] = static_cast<char>(i * 7);
    OR_EXPECT_OK(launch_sync(module["echo"], args.data(), size, 4096, &reply));
    EXPECT_EQ(reply, args);
  }
}

TEST_F(KernelTest, ArgumentsAreAlignedToSixteen) {
  TestModule module;
  PinnedBuffer<uint64_t> rest(2);
  rest[0] = rest[1] = 99;
  const MisalignmentArgs sync{rest.get()};
  const MisalignmentArgs cheap{rest.get() + 1};
  // An odd address on the host's side must not matter.
  alignas(16) unsigned char odd[1 + sizeof sync];
  std::memcpy(odd + 1, &sync, sizeof sync);
  OR_EXPECT_OK(orLaunchKernelSync(module["misalignment"], odd + 1, sizeof sync,
                                  nullptr, nullptr, 0, nullptr));
  std::memcpy(odd + 1, &cheap, sizeof cheap);
  OR_EXPECT_OK(
      launch_cheap(module["misalignment"], odd + 1, sizeof cheap, nullptr));
  OR_EXPECT_OK(orStreamSynchronize(nullptr));
  EXPECT_EQ(rest[0], 0u);
  EXPECT_EQ(rest[1], 0u);
}

// The same where they wait in a queue, behind arguments of every length.
TEST_F(KernelTest, QueuedArgumentsAreAlignedToSixteen) {
  constexpr size_t kCount = 200;
  TestModule module;
  PinnedBuffer<uint64_t> rest(kCount);
  Stream stream;
  Gate gate;
  gate.hold(stream);
  for (size_t i = 0; i < kCount; ++i) {
    const std::vector<char> filler(i);
    rest[i] = 99;
    OR_EXPECT_OK(orLaunchKernel(module["noop"], filler.data(), i, stream));
    const MisalignmentArgs args{rest.get() + i};
    OR_EXPECT_OK(launch(module["misalignment"], args, stream));
  }
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(rest[i], 0u) << i;
}

TEST_F(KernelTest, TheReplyMayFillTheCapacityExactly) {
  TestModule module;
  std::string reply;
  const ReplyArgs args{64, 'x', 0};
  OR_EXPECT_OK(launch_sync(module["reply"], &args, sizeof args, 64, &reply));
  EXPECT_EQ(reply, std::string(64, 'x'));
}

TEST_F(KernelTest, AReplyThatIsTooLongFailsTheLaunchAndStoresNothing) {
  TestModule module;
  for (const unsigned char ignore_refusal : {0, 1}) {
    std::string reply;
    const ReplyArgs args{64, 'x', ignore_refusal};
    OR_EXPECT_ERROR(orErrorInvalidValue, launch_sync(module["reply"], &args,
                                                     sizeof args, 63, &reply));
    EXPECT_EQ(reply, std::string(63, '?'));
    OR_EXPECT_OK(orDeviceSynchronize());
  }
}

TEST_F(KernelTest, ASecondReplyReplacesTheFirst) {
  TestModule module;
  std::string reply;
  OR_EXPECT_OK(launch_sync(module["reply_twice"], nullptr, 0, 64, &reply));
  EXPECT_EQ(reply, "short");
}

TEST_F(KernelTest, WithoutAReplyTheLengthIsZero) {
  TestModule module;
  std::string reply;
  OR_EXPECT_OK(launch_sync(module["noop"], nullptr, 0, 8, &reply));
  EXPECT_EQ(reply, "");
}

TEST_F(KernelTest, AnAsynchronousLaunchDropsTheReply) {
  TestModule module;
  Stream stream;
  const ReplyArgs args{64, 'x', 0};
  OR_EXPECT_OK(launch(module["reply"], args, stream));
  OR_EXPECT_OK(launch_cheap(module["reply"], args, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  // Idle: it runs on this thread.
  OR_EXPECT_OK(launch_cheap(module["reply"], args, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(KernelTest, ReplyRoomIsChecked) {
  TestModule module;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "reply",
                       orLaunchKernelSync(module["noop"], nullptr, 0, nullptr,
                                          nullptr, 8, nullptr));
  OR_EXPECT_OK(orLaunchKernelSync(module["noop"], nullptr, 0, nullptr, nullptr,
                                  0, nullptr));
}

// On an isolated device; in-process there is nothing to wait for or to stage.
TEST_F(KernelTest, AReplyCostsOneWaitAndIsStagedOnlyIfItIsLong) {
  constexpr size_t kShort = 8 << 10;
  constexpr size_t kLong = 1 << 20;
  const uint64_t waits = is_isolated() ? 1 : 0;
  const size_t staged = is_isolated() ? kLong : 0;
  TestModule module;
  const orFunction_t function = module["reply"];
  std::string reply;
  for (const size_t capacity : {kShort, kLong, kShort}) {
    const ReplyArgs args{64, 'x', 0};
    const orTestingCounters before = counters();
    OR_EXPECT_OK(launch_sync(function, &args, sizeof args, capacity, &reply));
    const orTestingCounters after = counters();
    EXPECT_EQ(reply, std::string(64, 'x'));
    EXPECT_EQ(after.deviceWaits, before.deviceWaits + waits);
    EXPECT_EQ(after.stagedBytes - before.stagedBytes,
              capacity == kLong ? staged : 0);
  }
}

TEST_F(KernelTest, ASynchronousLaunchOnABusyStreamWaitsItsTurn) {
  DeviceBuffer<uint32_t> value(1);
  value.set({1});
  TestModule module;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  const ScaleArgs triple{value.get(), 1, 3};
  OR_EXPECT_OK(launch(module["scale"], triple, stream));
  gate.await();
  Background launcher([&] {
    std::string reply(4, '?');
    OR_EXPECT_OK(orLaunchKernelSync(module["echo"], "text", 4, stream,
                                    reply.data(), reply.size(), nullptr));
    EXPECT_EQ(reply, "text");
    OR_EXPECT_OK(orStreamQuery(stream));
  });
  launcher.settle();
  EXPECT_FALSE(launcher.done());
  gate.open();
  launcher.join();
  EXPECT_EQ(value.values()[0], 3u);
}

// Whether "probe" on the current device can use `size` bytes at `ptr`.
bool translates(const TestModule& module, const void* ptr, size_t size) {
  const ProbeArgs args{ptr, size, 0};
  int answer = 0;
  OR_EXPECT_OK(orLaunchKernelSync(module["probe"], &args, sizeof args, nullptr,
                                  &answer, sizeof answer, nullptr));
  return answer == 1;
}

TEST_F(KernelTest, LiveDeviceAndPinnedMemoryTranslates) {
  TestModule module;
  DeviceBuffer<char> block(1000);
  PinnedBuffer<char> pinned(100);
  EXPECT_TRUE(translates(module, block.get(), 1000));
  EXPECT_TRUE(translates(module, block.get() + 999, 1));
  EXPECT_TRUE(translates(module, block.get() + 500, 500));
  EXPECT_TRUE(translates(module, pinned.get(), 100));
  EXPECT_TRUE(translates(module, pinned.get() + 99, 1));
}

TEST_F(KernelTest, ASizeOfZeroTranslates) {
  TestModule module;
  DeviceBuffer<char> block(1000);
  EXPECT_TRUE(translates(module, block.get(), 0));
  EXPECT_TRUE(translates(module, block.get() + 1000, 0));
}

TEST_F(KernelTest, MemoryOfAPeerTranslatesOncePermitted) {
  if (is_isolated()) GTEST_SKIP() << "there are no peers";
  TestModule module;
  OnDevice other(1);
  DeviceBuffer<char> there(64);
  OR_EXPECT_OK(orSetDevice(0));
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  EXPECT_TRUE(translates(module, there.get(), 64));
  OR_EXPECT_OK(orDeviceDisablePeerAccess(1));
}

// What orMalloc gives for a size of 0. On device 1, because a refusal would
// stay with the device.
TEST_F(KernelTest, NullWithASizeOfZeroTranslates) {
  OnDevice other(1);
  TestModule module;
  EXPECT_TRUE(translates(module, nullptr, 0));
  module.release();
  OR_EXPECT_OK(orDeviceReset());
}

// An illegal address stays with the device until it is reset, so each of these
// is tried on device 1, which is reset afterwards.
void expect_illegal(const std::function<ProbeArgs()>& make_args) {
  for (const int ignore_refusal : {0, 1}) {
    OnDevice other(1);
    TestModule module;
    ProbeArgs args = make_args();
    args.ignore_refusal = ignore_refusal;
    int answer = -1;
    OR_EXPECT_ERROR_SAYS(
        orErrorIllegalAddress, "probe",
        orLaunchKernelSync(module["probe"], &args, sizeof args, nullptr,
                           &answer, sizeof answer, nullptr));
    OR_EXPECT_ERROR(orErrorIllegalAddress, orDeviceSynchronize());
    module.release();
    OR_EXPECT_OK(orDeviceReset());
    OR_EXPECT_OK(orDeviceSynchronize());
  }
}

char* leaked_block(size_t size) {
  void* block = nullptr;
  OR_EXPECT_OK(orMalloc(&block, size));
  return static_cast<char*>(block);
}

TEST_F(KernelTest, ARangeThatLeavesItsAllocationIsIllegal) {
  expect_illegal([] { return ProbeArgs{leaked_block(1000), 1001, 0}; });
  expect_illegal([] { return ProbeArgs{leaked_block(1000) + 999, 2, 0}; });
  expect_illegal([] { return ProbeArgs{leaked_block(1000) - 1, 1, 0}; });
  expect_illegal([] { return ProbeArgs{leaked_block(1000), ~size_t{0}, 0}; });
}

TEST_F(KernelTest, FreedMemoryIsIllegal) {
  expect_illegal([] {
    char* const block = leaked_block(1000);
    OR_EXPECT_OK(orFree(block));
    return ProbeArgs{block, 1, 0};
  });
}

TEST_F(KernelTest, NullAndPageableMemoryAreIllegal) {
  static char pageable[16];
  expect_illegal([] { return ProbeArgs{nullptr, 1, 0}; });
  expect_illegal([] { return ProbeArgs{pageable, 1, 0}; });
}

TEST_F(KernelTest, AnotherDevicesMemoryIsIllegalWithoutPermission) {
  DeviceBuffer<char> here(64);
  expect_illegal([&] { return ProbeArgs{here.get(), 64, 0}; });
}

TEST_F(KernelTest, ArgumentsOfTheWrongSizeFailTheKernel) {
  TestModule module;
  std::string reply;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "wrong size",
                       launch_sync(module["scale"], "x", 1, 0, &reply));
}

TEST_F(KernelTest, TheFirstFailureOfAKernelCounts) {
  TestModule module;
  std::string reply;
  const TwoFailuresArgs args{orErrorOutOfMemory, orErrorInternal,
                             "no room for tables", "something else"};
  OR_EXPECT_ERROR_SAYS(
      orErrorOutOfMemory, "no room for tables",
      launch_sync(module["two_failures"], &args, sizeof args, 0, &reply));
}

TEST_F(KernelTest, ACheapLaunchOnAnIdleStreamRunsOnTheCallingThread) {
  if (is_isolated()) GTEST_SKIP() << "kernels run in another process";
  TestModule module;
  PinnedBuffer<uint64_t> id(1);
  Stream stream;
  const ThreadArgs args{id.get()};
  for (int i = 0; i < 10; ++i) {
    id[0] = 0;
    OR_EXPECT_OK(launch_cheap(module["thread"], args, stream));
    EXPECT_EQ(id[0], static_cast<uint64_t>(gettid()));
    OR_EXPECT_OK(orStreamQuery(stream));
  }
}

TEST_F(KernelTest, ACheapLaunchOnABusyStreamIsQueued) {
  TestModule module;
  PinnedBuffer<uint64_t> id(1);
  id[0] = 0;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  gate.await();
  OR_EXPECT_OK(launch_cheap(module["thread"], ThreadArgs{id.get()}, stream));
  EXPECT_EQ(id[0], 0u);
  gate.open();
  await_idle(stream);
  EXPECT_NE(id[0], 0u);
  EXPECT_NE(id[0], static_cast<uint64_t>(gettid()));
}

TEST_F(KernelTest, AShortLaunchWakesNobody) {
  if (is_isolated()) GTEST_SKIP() << "kernels run in another process";
  TestModule module;
  PinnedBuffer<uint64_t> id(1);
  Stream stream;
  const ThreadArgs args{id.get()};
  const orLaunchConfig_t config{sizeof config, stream, orLaunchShort};
  for (int i = 0; i < 10; ++i) {
    id[0] = 0;
    OR_EXPECT_OK(
        orLaunchKernelEx(&config, module["thread"], &args, sizeof args));
    EXPECT_EQ(id[0], static_cast<uint64_t>(gettid()));
    OR_EXPECT_OK(orStreamQuery(stream));
  }
}

TEST_F(KernelTest, AShortLaunchOnABusyStreamIsQueued) {
  TestModule module;
  PinnedBuffer<uint64_t> id(1);
  id[0] = 0;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  gate.await();
  const ThreadArgs args{id.get()};
  const orLaunchConfig_t config{sizeof config, stream, orLaunchShort};
  OR_EXPECT_OK(orLaunchKernelEx(&config, module["thread"], &args, sizeof args));
  EXPECT_EQ(id[0], 0u);
  gate.open();
  await_idle(stream);
  EXPECT_NE(id[0], 0u);
  EXPECT_NE(id[0], static_cast<uint64_t>(gettid()));
}

TEST_F(KernelTest, AnOrdinaryLaunchLeavesTheCallingThread) {
  TestModule module;
  PinnedBuffer<uint64_t> id(1);
  id[0] = 0;
  Stream stream;
  OR_EXPECT_OK(launch(module["thread"], ThreadArgs{id.get()}, stream));
  await_idle(stream);
  EXPECT_NE(id[0], 0u);
  EXPECT_NE(id[0], static_cast<uint64_t>(gettid()));
}

TEST_F(KernelTest, AResetCancelsARunningKernel) {
  SharedWord started;
  OnDevice other(1);
  TestModule module;
  const WaitArgs forever{started.get(), nullptr, 0};
  OR_EXPECT_OK(launch(module["wait"], forever, nullptr));
  EXPECT_TRUE(eventually([&] { return started.load() == 1; }));
  module.release();
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_OK(orStreamQuery(nullptr));
}

}  // namespace
}  // namespace openreg::test
