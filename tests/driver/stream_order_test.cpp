// What runs in which order: within a stream, between streams, and between a
// stream and the default stream of its device.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using StreamOrderTest = DriverTest;
using Values = std::vector<uint32_t>;

TEST_F(StreamOrderTest, OneStreamRunsInTheOrderOfSubmission) {
  constexpr uint32_t kCount = 2000;
  DeviceLog log(kCount);
  Stream stream;
  Values expected(kCount);
  std::iota(expected.begin(), expected.end(), 0u);
  for (const uint32_t value : expected) log.append(value, stream);
  EXPECT_EQ(log.entries(), expected);
}

TEST_F(StreamOrderTest, KernelsCopiesAndFillsOfOneStreamKeepTheirOrder) {
  DeviceBuffer<unsigned char> block(64);
  PinnedBuffer<unsigned char> first(64);
  PinnedBuffer<unsigned char> second(64);
  Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orMemsetAsync(block.get(), 1, 64, stream));
  OR_EXPECT_OK(
      orMemcpyAsync(first.get(), block.get(), 64, orMemcpyDefault, stream));
  const orTestingFillArgs fill{block.get(), 64, 2};
  OR_EXPECT_OK(launch(builtin("fill"), fill, stream));
  OR_EXPECT_OK(
      orMemcpyAsync(second.get(), block.get(), 64, orMemcpyDefault, stream));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  for (size_t i = 0; i < 64; ++i) {
    ASSERT_EQ(first[i], 1);
    ASSERT_EQ(second[i], 2);
  }
}

TEST_F(StreamOrderTest, ASideStreamFinishesWhileTheDefaultStreamIsHeld) {
  Mark mark;
  Stream side(orStreamNonBlocking);
  Gate gate;
  gate.hold(nullptr);
  gate.await();
  OR_EXPECT_OK(mark.set_by(side));
  OR_EXPECT_OK(orStreamSynchronize(side));
  EXPECT_TRUE(mark.is_set());
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
}

TEST_F(StreamOrderTest, TheDefaultStreamFinishesWhileASideStreamIsHeld) {
  Mark mark;
  Stream side(orStreamNonBlocking);
  Gate gate;
  gate.hold(side);
  gate.await();
  OR_EXPECT_OK(mark.set_by(nullptr));
  OR_EXPECT_OK(orStreamSynchronize(nullptr));
  EXPECT_TRUE(mark.is_set());
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(side));
}

TEST_F(StreamOrderTest, ABlockingStreamWaitsForTheDefaultStream) {
  DeviceLog log(8);
  Mark mark;
  Stream blocking(orStreamDefault);
  Gate gate;
  gate.hold(nullptr);
  log.append(1, nullptr);
  log.append(2, blocking);
  OR_EXPECT_OK(mark.set_by(blocking));
  gate.await();
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(blocking));
  EXPECT_FALSE(mark.is_set());
  gate.open();
  EXPECT_EQ(log.entries(), (Values{1, 2}));
}

TEST_F(StreamOrderTest, TheDefaultStreamWaitsForABlockingStream) {
  DeviceLog log(8);
  Mark mark;
  Stream blocking(orStreamDefault);
  Gate gate;
  gate.hold(blocking);
  log.append(1, blocking);
  log.append(2, nullptr);
  OR_EXPECT_OK(mark.set_by(nullptr));
  gate.await();
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
  EXPECT_FALSE(mark.is_set());
  gate.open();
  EXPECT_EQ(log.entries(), (Values{1, 2}));
}

TEST_F(StreamOrderTest, TheDefaultStreamWaitsForADestroyedBlockingStream) {
  DeviceLog log(8);
  Stream blocking(orStreamDefault);
  Gate gate;
  gate.hold(blocking);
  log.append(1, blocking);
  OR_EXPECT_OK(orStreamDestroy(blocking.release()));
  log.append(2, nullptr);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
  gate.open();
  EXPECT_EQ(log.entries(), (Values{1, 2}));
}

TEST_F(StreamOrderTest, BlockingStreamsDoNotWaitForEachOther) {
  Stream first(orStreamDefault);
  Stream second(orStreamDefault);
  Gate gate;
  gate.hold(first);
  gate.await();
  OR_EXPECT_OK(launch_empty(second));
  OR_EXPECT_OK(orStreamSynchronize(second));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(first));
}

TEST_F(StreamOrderTest, WorkOnTheDefaultStreamStandsBetweenBlockingStreams) {
  DeviceLog log(8);
  Stream first(orStreamDefault);
  Stream second(orStreamDefault);
  Gate gate;
  gate.hold(first);
  log.append(1, first);
  log.append(2, nullptr);
  log.append(3, second);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(second));
  gate.open();
  EXPECT_EQ(log.entries(), (Values{1, 2, 3}));
}

TEST_F(StreamOrderTest, ABlockingStreamDoesNotWaitForLaterDefaultWork) {
  Mark mark;
  Stream blocking(orStreamDefault);
  Gate gate;
  OR_EXPECT_OK(mark.set_by(blocking));
  gate.hold(nullptr);
  OR_EXPECT_OK(orStreamSynchronize(blocking));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(StreamOrderTest, CopiesOnTheDefaultStreamWaitForBlockingStreams) {
  DeviceBuffer<uint32_t> block(4);
  PinnedBuffer<uint32_t> result(4);
  Stream blocking(orStreamDefault);
  Gate gate;
  block.set({0, 0, 0, 0});
  gate.hold(blocking);
  OR_EXPECT_OK(orMemsetAsync(block.get(), 0x11, block.bytes(), blocking));
  OR_EXPECT_OK(orMemcpyAsync(result.get(), block.get(), block.bytes(),
                             orMemcpyDeviceToHost, nullptr));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(nullptr));
  EXPECT_EQ(result[3], 0x11111111u);
}

TEST_F(StreamOrderTest, ManyRoundsBetweenDefaultAndBlockingStreamsKeepOrder) {
  constexpr uint32_t kRounds = 500;
  DeviceLog log(2 * kRounds);
  Stream blocking(orStreamDefault);
  Values expected(2 * kRounds);
  std::iota(expected.begin(), expected.end(), 0u);
  for (uint32_t i = 0; i < kRounds; ++i) {
    log.append(2 * i, nullptr);
    log.append(2 * i + 1, blocking);
  }
  EXPECT_EQ(log.entries(), expected);
}

TEST_F(StreamOrderTest, ACheapLaunchOnAnIdleStreamWaitsForTheDefaultStream) {
  Mark mark;
  Stream blocking(orStreamDefault);
  Gate gate;
  gate.hold(nullptr);
  gate.await();
  OR_EXPECT_OK(mark.set_cheaply_by(blocking));
  EXPECT_FALSE(mark.is_set());
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(blocking));
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(blocking));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(StreamOrderTest, ACheapLaunchOnTheDefaultStreamWaitsForBlockingStreams) {
  Mark mark;
  Stream blocking(orStreamDefault);
  Gate gate;
  gate.hold(blocking);
  gate.await();
  OR_EXPECT_OK(mark.set_cheaply_by(nullptr));
  EXPECT_FALSE(mark.is_set());
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(nullptr));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(StreamOrderTest, TheNullStreamFollowsTheCurrentDevice) {
  Gate gate;
  {
    OnDevice other(1);
    gate.hold(nullptr);
    gate.await();
    OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
  }
  OR_EXPECT_OK(orStreamQuery(nullptr));
  OR_EXPECT_OK(orStreamSynchronize(nullptr));
  OnDevice other(1);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(nullptr));
}

TEST_F(StreamOrderTest, ABlockingStreamIgnoresOtherDevicesDefaultStreams) {
  Stream blocking(orStreamDefault);
  Gate gate;
  {
    OnDevice other(1);
    gate.hold(nullptr);
    gate.await();
  }
  OR_EXPECT_OK(launch_empty(blocking));
  OR_EXPECT_OK(orStreamSynchronize(blocking));
}

TEST_F(StreamOrderTest, ASynchronousLaunchOnABusyStreamComesAfterItsWork) {
  DeviceLog log(8);
  Stream stream;
  for (uint32_t i = 0; i < 3; ++i) log.append(i, stream);
  OR_EXPECT_OK(orLaunchKernelSync(builtin("empty"), nullptr, 0, stream, nullptr,
                                  0, nullptr));
  OR_EXPECT_OK(orStreamQuery(stream));
  EXPECT_EQ(log.entries(), (Values{0, 1, 2}));
}

}  // namespace
}  // namespace openreg::test
