// Copies and memset: in which order they run, which of them return before they
// have run, and copies between devices. Arguments are in copy_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "support/background.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using CopyOrderTest = DriverTest;

constexpr size_t kKiB = 1024;
// The most that is captured at the call from pageable memory.
constexpr size_t kCaptured = 64 * kKiB;

using Bytes = std::vector<char>;

// `call` does not return before the stream, which a gate holds, gets there.
void expect_blocks_behind_a_gate(orStream_t stream,
                                 const std::function<void()>& call) {
  Gate gate;
  gate.hold(stream);
  gate.await();
  Background background(call);
  background.settle();
  EXPECT_FALSE(background.done());
  gate.open();
  background.join();
}

TEST_F(CopyOrderTest, ACopyFromPinnedMemoryReadsWhenTheStreamGetsThere) {
  const Stream stream;
  PinnedBuffer<int> pinned(1);
  DeviceBuffer<int> device(1);
  Gate gate;
  gate.hold(stream);
  pinned[0] = 1;
  OR_EXPECT_OK(orMemcpyAsync(device.get(), pinned.get(), sizeof(int),
                             orMemcpyHostToDevice, stream));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  pinned[0] = 2;
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(device.values()[0], 2);
}

TEST_F(CopyOrderTest, ACopyToPinnedMemoryReturnsBeforeItWrites) {
  const Stream stream;
  PinnedBuffer<int> pinned(1);
  DeviceBuffer<int> device(1);
  device.set({5});
  pinned[0] = 1;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orMemcpyAsync(pinned.get(), device.get(), sizeof(int),
                             orMemcpyDeviceToHost, stream));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  EXPECT_EQ(pinned[0], 1);
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(pinned[0], 5);
}

TEST_F(CopyOrderTest, RegisteredMemoryIsCopiedAsPinnedMemory) {
  const Stream stream;
  Bytes host(2 * kCaptured, 1);
  const DeviceBuffer<char> device(host.size());
  OR_ASSERT_OK(orHostRegister(host.data(), host.size(), 0));
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orMemcpyAsync(device.get(), host.data(), host.size(),
                             orMemcpyDefault, stream));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  std::fill(host.begin(), host.end(), 2);
  gate.open();
  OR_EXPECT_OK(orHostUnregister(host.data()));
  EXPECT_EQ(device.values(), Bytes(host.size(), 2));
}

TEST_F(CopyOrderTest, ASmallCopyFromPageableMemoryIsCapturedAtTheCall) {
  const Stream stream;
  for (const size_t size : {size_t{1}, kCaptured}) {
    Bytes host(size, 1);
    const DeviceBuffer<char> device(size);
    Gate gate;
    gate.hold(stream);
    OR_EXPECT_OK(orMemcpyAsync(device.get(), host.data(), size,
                               orMemcpyHostToDevice, stream));
    OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
    std::fill(host.begin(), host.end(), 2);
    gate.open();
    OR_EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(device.values(), Bytes(size, 1));
  }
}

TEST_F(CopyOrderTest, ALargeCopyFromPageableMemoryWaits) {
  const Stream stream;
  Bytes host = pattern(kCaptured + 1);
  const DeviceBuffer<char> device(host.size());
  expect_blocks_behind_a_gate(stream, [&] {
    OR_EXPECT_OK(orMemcpyAsync(device.get(), host.data(), host.size(),
                               orMemcpyHostToDevice, stream));
    // The source may be changed now.
    std::fill(host.begin(), host.end(), 0);
  });
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(device.values(), pattern(host.size()));
}

TEST_F(CopyOrderTest, ACopyToPageableMemoryWaits) {
  const Stream stream;
  for (const size_t size : {size_t{1}, 2 * kCaptured}) {
    Bytes host(size, 0);
    DeviceBuffer<char> device(size);
    device.set(pattern(size));
    expect_blocks_behind_a_gate(stream, [&] {
      OR_EXPECT_OK(orMemcpyAsync(host.data(), device.get(), size,
                                 orMemcpyDeviceToHost, stream));
      EXPECT_EQ(host, pattern(size));
    });
  }
}

TEST_F(CopyOrderTest, ACopyWithinPageableMemoryWaits) {
  const Stream stream;
  const Bytes source = pattern(100);
  Bytes target(100, 0);
  expect_blocks_behind_a_gate(stream, [&] {
    OR_EXPECT_OK(orMemcpyAsync(target.data(), source.data(), 100,
                               orMemcpyHostToHost, stream));
    EXPECT_EQ(target, source);
  });
}

TEST_F(CopyOrderTest, MemcpyWithHostMemoryWaitsForTheDefaultStream) {
  PinnedBuffer<char> pinned(100);
  std::memset(pinned.get(), 3, 100);
  const DeviceBuffer<char> device(100);
  Bytes host(100, 0);
  expect_blocks_behind_a_gate(nullptr, [&] {
    OR_EXPECT_OK(
        orMemcpy(device.get(), pinned.get(), 100, orMemcpyHostToDevice));
    std::memset(pinned.get(), 4, 100);
  });
  expect_blocks_behind_a_gate(nullptr, [&] {
    OR_EXPECT_OK(
        orMemcpy(host.data(), device.get(), 100, orMemcpyDeviceToHost));
    EXPECT_EQ(host, Bytes(100, 3));
  });
  expect_blocks_behind_a_gate(nullptr, [&] {
    OR_EXPECT_OK(
        orMemcpy(pinned.get(), device.get(), 100, orMemcpyDeviceToHost));
    EXPECT_EQ(pinned[99], 3);
  });
}

TEST_F(CopyOrderTest, MemcpyWithinTheDeviceReturnsWhenItIsQueued) {
  DeviceBuffer<int> source(1);
  DeviceBuffer<int> target(1);
  source.set({8});
  target.set({0});
  Gate gate;
  gate.hold(nullptr);
  OR_EXPECT_OK(orMemcpy(target.get(), source.get(), sizeof(int),
                        orMemcpyDeviceToDevice));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
  gate.open();
  EXPECT_EQ(target.values()[0], 8);
}

TEST_F(CopyOrderTest, MemsetOfDeviceMemoryReturnsWhenItIsQueued) {
  const DeviceBuffer<char> device(100);
  Gate gate;
  gate.hold(nullptr);
  OR_EXPECT_OK(orMemset(device.get(), 8, 100));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
  gate.open();
  EXPECT_EQ(device.values(), Bytes(100, 8));
}

TEST_F(CopyOrderTest, MemsetOfPinnedMemoryWaits) {
  PinnedBuffer<char> pinned(1);
  pinned[0] = 0;
  expect_blocks_behind_a_gate(nullptr, [&] {
    OR_EXPECT_OK(orMemset(pinned.get(), 8, 1));
    EXPECT_EQ(pinned[0], 8);
  });
}

TEST_F(CopyOrderTest, MemsetAsyncOfPinnedMemoryReturnsWhenItIsQueued) {
  const Stream stream;
  PinnedBuffer<char> pinned(1);
  pinned[0] = 0;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orMemsetAsync(pinned.get(), 8, 1, stream));
  EXPECT_EQ(pinned[0], 0);
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(pinned[0], 8);
}

TEST_F(CopyOrderTest, CopiesMemsetsAndKernelsRunInTheOrderOfTheStream) {
  const Stream stream;
  const DeviceBuffer<char> device(1);
  PinnedBuffer<char> seen(3);
  Gate gate;
  gate.hold(stream);
  const auto see = [&](size_t slot) {
    OR_EXPECT_OK(orMemcpyAsync(seen.get() + slot, device.get(), 1,
                               orMemcpyDeviceToHost, stream));
  };
  OR_EXPECT_OK(orMemsetAsync(device.get(), 1, 1, stream));
  see(0);
  OR_EXPECT_OK(
      launch(builtin("fill"), orTestingFillArgs{device.get(), 1, 2}, stream));
  see(1);
  const char three = 3;
  OR_EXPECT_OK(
      orMemcpyAsync(device.get(), &three, 1, orMemcpyHostToDevice, stream));
  see(2);
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(Bytes(seen.get(), seen.get() + 3), (Bytes{1, 2, 3}));
}

TEST_F(CopyOrderTest, ACopyDoesNotWaitForOtherStreams) {
  const Stream held;
  const Stream stream;
  DeviceBuffer<int> device(1);
  PinnedBuffer<int> pinned(1);
  device.set({4});
  Gate gate;
  gate.hold(held);
  OR_EXPECT_OK(orMemcpyAsync(pinned.get(), device.get(), sizeof(int),
                             orMemcpyDeviceToHost, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(pinned[0], 4);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(held));
}

class PeerCopyTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    here_ = device_malloc(kSize);
    const OnDevice one(1);
    there_ = device_malloc(kSize);
    OR_ASSERT_OK(
        orMemcpy(there_, pattern(kSize).data(), kSize, orMemcpyHostToDevice));
  }
  void TearDown() override {
    OR_EXPECT_OK(orFree(here_));
    OR_EXPECT_OK(orFree(there_));
    DriverTest::TearDown();
  }

  void expect_arrived() const {
    Bytes bytes(kSize);
    OR_EXPECT_OK(orMemcpy(bytes.data(), here_, kSize, orMemcpyDeviceToHost));
    EXPECT_EQ(bytes, pattern(kSize));
  }

  static constexpr size_t kSize = 200 * kKiB;
  char* here_ = nullptr;   // on device 0
  char* there_ = nullptr;  // on device 1, holds the pattern
};

TEST_F(PeerCopyTest, MemcpyPeerNeedsNoPermission) {
  OR_EXPECT_OK(orMemcpyPeer(here_, 0, there_, 1, kSize));
  expect_arrived();
}

TEST_F(PeerCopyTest, MemcpyKnowsTheDevicesByThePointers) {
  for (const orMemcpyKind kind : {orMemcpyDefault, orMemcpyDeviceToDevice}) {
    OR_EXPECT_OK(orMemset(here_, 0, kSize));
    OR_EXPECT_OK(orMemcpy(here_, there_, kSize, kind));
    expect_arrived();
  }
}

TEST_F(PeerCopyTest, MemcpyPeerAsyncRunsInTheOrderOfItsStream) {
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orMemsetAsync(here_, 0, kSize, stream));
  OR_EXPECT_OK(orMemcpyPeerAsync(here_, 0, there_, 1, kSize, stream));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  expect_arrived();
}

TEST_F(PeerCopyTest, FreeWaitsForACopyThatABlockedCallOfAnotherDeviceMakes) {
  char* block = nullptr;
  {
    const OnDevice one(1);
    block = device_malloc(kSize);
    OR_EXPECT_OK(orMemset(block, 7, kSize));
    OR_EXPECT_OK(orDeviceSynchronize());
  }
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  gate.await();
  Bytes bytes(kSize);
  Background copy([&] {
    OR_EXPECT_OK(orMemcpyAsync(bytes.data(), block, kSize, orMemcpyDeviceToHost,
                               stream));
  });
  copy.settle();
  Background free([block] { OR_EXPECT_OK(orFree(block)); });
  free.settle();
  EXPECT_FALSE(copy.done());
  EXPECT_FALSE(free.done());
  gate.open();
  copy.join();
  EXPECT_EQ(bytes, Bytes(kSize, 7));
}

TEST_F(PeerCopyTest, MemcpyPeerWithinOneDeviceIsACopy) {
  const OnDevice one(1);
  DeviceBuffer<char> other(kSize);
  OR_EXPECT_OK(orMemcpyPeer(other.get(), 1, there_, 1, kSize));
  EXPECT_EQ(other.values(), pattern(kSize));
}

TEST_F(PeerCopyTest, ADeviceThatDoesNotExistIsRefused) {
  for (const int device : {-1, device_count()}) {
    OR_EXPECT_ERROR(orErrorInvalidDevice,
                    orMemcpyPeer(here_, device, there_, 1, 1));
    OR_EXPECT_ERROR(orErrorInvalidDevice,
                    orMemcpyPeerAsync(here_, 0, there_, device, 1, nullptr));
  }
}

TEST_F(PeerCopyTest, APointerOfAnotherDeviceOrOfTheHostIsRefused) {
  char byte = 0;
  OR_EXPECT_ERROR(orErrorInvalidValue, orMemcpyPeer(here_, 1, there_, 1, 1));
  OR_EXPECT_ERROR(orErrorInvalidValue, orMemcpyPeer(here_, 0, there_, 0, 1));
  OR_EXPECT_ERROR(orErrorInvalidValue, orMemcpyPeer(&byte, 0, there_, 1, 1));
  OR_EXPECT_ERROR(orErrorInvalidValue, orMemcpyPeer(here_, 0, &byte, 1, 1));
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orMemcpyPeer(here_, 0, there_, 1, kSize + 1));
}

}  // namespace
}  // namespace openreg::test
