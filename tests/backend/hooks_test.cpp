// The hooks: what PyTorch's core asks by name.
#include "backend/runtime/hooks.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "backend/runtime/functions.h"
#include "backend/runtime/host_allocator.h"
#include "support/support.h"

namespace torch_openreg::test {

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

const at::AcceleratorHooksInterface& hooks() {
  return at::globalContext().getAcceleratorHooksInterface(kType);
}

at::Tensor on_device(c10::DeviceIndex index) {
  return at::empty({4}, at::device(at::Device(kType, index)));
}

class HooksTest : public openreg::test::DriverTest {
 protected:
  // The cache keeps memory.
  void SetUp() override {
    DriverTest::SetUp();
    expect_leftovers();
  }
};

TEST_F(HooksTest, AreWhatPyTorchFinds) {
  EXPECT_NE(dynamic_cast<const OpenRegHooksInterface*>(&hooks()), nullptr);
  EXPECT_TRUE(hooks().isBuilt());
  EXPECT_TRUE(hooks().isAvailable());
  EXPECT_EQ(hooks().deviceCount(), device_count());
  EXPECT_TRUE(at::getAccelerator(/*checked=*/false) == kType);
}

TEST_F(HooksTest, InitCreatesNoDevice) {
  hooks().init();
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    EXPECT_FALSE(hooks().hasPrimaryContext(i));
  }
}

TEST_F(HooksTest, ADeviceHasAContextAfterItsUse) {
  const at::Tensor tensor = on_device(1);
  EXPECT_TRUE(hooks().hasPrimaryContext(1));
  EXPECT_FALSE(hooks().hasPrimaryContext(0));
  EXPECT_THROW(hooks().hasPrimaryContext(99), c10::AcceleratorError);
}

TEST_F(HooksTest, SetAndExchangeTheCurrentDevice) {
  hooks().setCurrentDevice(1);
  EXPECT_EQ(hooks().getCurrentDevice(), 1);
  EXPECT_EQ(hooks().exchangeDevice(0), 1);
  EXPECT_EQ(hooks().maybeExchangeDevice(1), 0);
  EXPECT_EQ(hooks().maybeExchangeDevice(0), 1);
  EXPECT_THROW(hooks().setCurrentDevice(99), c10::AcceleratorError);
  EXPECT_THROW(hooks().exchangeDevice(99), c10::AcceleratorError);
  EXPECT_EQ(hooks().getCurrentDevice(), 0);
}

TEST_F(HooksTest, ADevicePointerLeadsToItsDevice) {
  for (const c10::DeviceIndex index : {0, 1}) {
    const at::Tensor tensor = on_device(index);
    auto* const data = static_cast<char*>(tensor.mutable_data_ptr());
    EXPECT_EQ(hooks().getDeviceFromPtr(data), tensor.device());
    EXPECT_EQ(hooks().getDeviceFromPtr(data + 15), tensor.device());
  }
}

TEST_F(HooksTest, AHostPointerLeadsToNoDevice) {
  int local = 0;
  EXPECT_THROW(hooks().getDeviceFromPtr(&local), c10::Error);
  EXPECT_THROW(hooks().getDeviceFromPtr(nullptr), c10::Error);
  const c10::DataPtr pinned = getOpenRegHostAllocator()->allocate(64);
  EXPECT_THROW(hooks().getDeviceFromPtr(pinned.get()), c10::Error);
}

TEST_F(HooksTest, ATensorOverDeviceMemoryFindsItsDevice) {
  const at::Tensor owner = on_device(1);
  const at::Tensor view =
      at::from_blob(owner.mutable_data_ptr(), {4}, at::device(kType));
  EXPECT_EQ(view.device(), owner.device());
}

TEST_F(HooksTest, PinnedMemoryIsKnown) {
  EXPECT_EQ(hooks().getPinnedMemoryAllocator(), getOpenRegHostAllocator());
  const c10::DataPtr pinned = hooks().getPinnedMemoryAllocator()->allocate(64);
  int local = 0;
  EXPECT_TRUE(hooks().isPinnedPtr(pinned.get()));
  EXPECT_TRUE(hooks().isPinnedPtr(static_cast<char*>(pinned.get()) + 63));
  EXPECT_FALSE(hooks().isPinnedPtr(&local));
  EXPECT_FALSE(hooks().isPinnedPtr(nullptr));
  EXPECT_FALSE(hooks().isPinnedPtr(on_device(0).const_data_ptr()));
}

TEST_F(HooksTest, AStorageIsResizedAndKeepsWhatFits) {
  const at::Tensor tensor = at::empty({4}, at::device(at::kCPU));
  tensor.fill_(3);
  const at::Tensor moved = tensor.to(at::Device(kType, 1));
  at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(moved.storage(),
                                                           4096);
  EXPECT_EQ(moved.storage().nbytes(), 4096);
  EXPECT_TRUE(moved.to(at::kCPU).equal(tensor));
}

}  // namespace

}  // namespace torch_openreg::test
