// The device guard: what PyTorch's own guards, streams and events get from it.
#include "backend/runtime/guard.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <string>

#include "backend/runtime/functions.h"
#include "backend/runtime/stream.h"
#include "support/background.h"
#include "support/support.h"

namespace torch_openreg::test {

namespace {

using openreg::test::Background;
using openreg::test::Gate;

constexpr auto kType = c10::DeviceType::PrivateUse1;

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(kType);
}

c10::Device device(c10::DeviceIndex index) { return {kType, index}; }

c10::Stream new_stream(c10::DeviceIndex index) {
  return guard().getNewStream(device(index), 0);
}

class GuardTest : public openreg::test::DriverTest {
 protected:
  // Streams of the pool stay.
  void SetUp() override {
    DriverTest::SetUp();
    expect_leftovers();
  }
};

TEST_F(GuardTest, IsOurs) {
  EXPECT_EQ(guard().type(), kType);
  EXPECT_NE(dynamic_cast<const OpenRegGuardImpl*>(&guard()), nullptr);
}

TEST_F(GuardTest, CountsTheDriversDevices) {
  int count = 0;
  OR_ASSERT_OK(orGetDeviceCount(&count));
  EXPECT_EQ(guard().deviceCount(), count);
}

TEST_F(GuardTest, PyTorchsGuardChangesTheDeviceAndRestoresIt) {
  {
    const c10::DeviceGuard on_1(device(1));
    EXPECT_EQ(on_1.original_device(), device(0));
    EXPECT_EQ(guard().getDevice(), device(1));
    int current = -1;
    OR_ASSERT_OK(orGetDevice(&current));
    EXPECT_EQ(current, 1);
  }
  EXPECT_EQ(guard().getDevice(), device(0));
}

TEST_F(GuardTest, ADeviceThatDoesNotExistIsAnAcceleratorError) {
  EXPECT_THROW(guard().setDevice(device(99)), c10::AcceleratorError);
  EXPECT_THROW(guard().exchangeDevice(device(99)), c10::AcceleratorError);
  EXPECT_THROW(guard().synchronizeDevice(99), c10::AcceleratorError);
  EXPECT_THROW(guard().getStream(device(99)), c10::AcceleratorError);
  EXPECT_THROW(guard().getNewStream(device(99), 0), c10::AcceleratorError);
  EXPECT_THROW(guard().getDeviceCapability(device(99)), c10::AcceleratorError);
  EXPECT_EQ(guard().getDevice(), device(0));
}

TEST_F(GuardTest, SettingADeviceUncheckedOnlyWarns) {
  ::testing::internal::CaptureStderr();
  guard().uncheckedSetDevice(device(99));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("99"),
            std::string::npos);
  EXPECT_EQ(guard().getDevice(), device(0));
  guard().uncheckedSetDevice(device(1));
  EXPECT_EQ(guard().getDevice(), device(1));
  guard().uncheckedSetDevice(device(0));
}

TEST_F(GuardTest, SynchronizesTheDeviceThatItIsGiven) {
  const c10::Stream busy = new_stream(1);
  Gate gate;
  gate.hold(OpenRegStream(busy).handle());
  guard().synchronizeDevice(0);
  Background waits([] { guard().synchronizeDevice(1); });
  waits.settle();
  EXPECT_FALSE(waits.done());
  gate.open();
  waits.join();
  EXPECT_TRUE(guard().queryStream(busy));
}

TEST_F(GuardTest, ExchangingAStreamLeavesTheDevice) {
  const c10::Stream stream = new_stream(1);
  const c10::Stream before = guard().exchangeStream(stream);
  EXPECT_EQ(before, guard().getDefaultStream(device(1)));
  EXPECT_EQ(guard().getStream(device(1)), stream);
  EXPECT_EQ(guard().getDevice(), device(0));
  EXPECT_EQ(guard().exchangeStream(before), stream);
}

TEST_F(GuardTest, PyTorchsStreamGuardSetsStreamAndDevice) {
  const c10::Stream stream = new_stream(1);
  {
    const c10::StreamGuard on(stream);
    EXPECT_EQ(guard().getStream(device(1)), stream);
    EXPECT_EQ(guard().getDevice(), device(1));
  }
  EXPECT_EQ(guard().getStream(device(1)), guard().getDefaultStream(device(1)));
  EXPECT_EQ(guard().getDevice(), device(0));
}

TEST_F(GuardTest, TheGlobalPoolHasTwoPriorities) {
  const auto [least, greatest] = stream_priority_range();
  const OpenRegStream low(guard().getStreamFromGlobalPool(device(0), false));
  const OpenRegStream high(guard().getStreamFromGlobalPool(device(0), true));
  EXPECT_EQ(low.priority(), least);
  EXPECT_EQ(high.priority(), greatest);
}

TEST_F(GuardTest, TheNativeHandleIsTheDriversStream) {
  const c10::Stream stream = new_stream(1);
  auto* const handle =
      static_cast<orStream_t>(guard().getStreamNativeHandle(stream));
  int owner = -1;
  OR_ASSERT_OK(orStreamGetDevice(handle, &owner));
  EXPECT_EQ(owner, 1);
  const c10::Stream default_stream = guard().getDefaultStream(device(1));
  EXPECT_EQ(guard().getStreamNativeHandle(default_stream), nullptr);
}

TEST_F(GuardTest, NothingIsCapturing) {
  EXPECT_FALSE(guard().isStreamCapturing(guard().getDefaultStream(device(0))));
}

TEST_F(GuardTest, AStreamOfAnotherKindOfDeviceIsRefused) {
  const c10::Stream host(c10::Stream::DEFAULT, c10::Device(c10::kCPU));
  EXPECT_THROW(guard().queryStream(host), c10::Error);
  EXPECT_THROW(guard().synchronizeStream(host), c10::Error);
}

TEST_F(GuardTest, AnEventThatWasNeverRecordedIsNoObstacle) {
  EXPECT_TRUE(guard().queryEvent(nullptr));
  guard().synchronizeEvent(nullptr);
  guard().block(nullptr, guard().getDefaultStream(device(0)));
  guard().destroyEvent(nullptr, 0);
}

TEST_F(GuardTest, AnEventOrdersStreamsOfTwoDevices) {
  const c10::Stream first = new_stream(0);
  const c10::Stream second = new_stream(1);
  Gate gate;
  gate.hold(OpenRegStream(first).handle());
  c10::Event event(kType);
  event.record(first);
  EXPECT_FALSE(event.query());
  event.block(second);
  EXPECT_FALSE(second.query());
  gate.open();
  second.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(GuardTest, AnEventStaysOnItsDevice) {
  c10::Event event(kType);
  event.record(new_stream(0));
  EXPECT_EQ(event.device_index(), 0);
  EXPECT_THROW(event.record(new_stream(1)), c10::Error);
}

TEST_F(GuardTest, EventsMeasureTime) {
  const c10::Stream stream = new_stream(0);
  c10::Event start(kType, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(kType, c10::EventFlag::BACKEND_DEFAULT);
  start.record(stream);
  end.record(stream);
  end.synchronize();
  EXPECT_GT(start.elapsedTime(end), 0);
}

}  // namespace

}  // namespace torch_openreg::test
