// The hooks that no Python program reaches.
#include "backend/runtime/hooks.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include "openreg/memory.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using HooksTest = AllocatorTest;

TEST_F(HooksTest, AreWhatPyTorchFinds) {
  EXPECT_NE(dynamic_cast<const OpenRegHooksInterface*>(
                &at::globalContext().getAcceleratorHooksInterface(
                    c10::DeviceType::PrivateUse1)),
            nullptr);
}

TEST_F(HooksTest, ADevicePointerLeadsToItsDevice) {
  const OpenRegHooksInterface hooks;
  for (const c10::DeviceIndex device : {0, 1}) {
    const DeviceScope scope(device);
    const c10::DataPtr ptr = allocator().allocate(100);
    char* const inside = static_cast<char*>(ptr.get()) + 50;
    EXPECT_EQ(hooks.getDeviceFromPtr(inside),
              c10::Device(c10::DeviceType::PrivateUse1, device));
  }
}

TEST_F(HooksTest, AHostPointerLeadsToNoDevice) {
  const OpenRegHooksInterface hooks;
  int pageable = 0;
  EXPECT_THROW(hooks.getDeviceFromPtr(&pageable), c10::Error);
  void* pinned = nullptr;
  OR_ASSERT_OK(orMallocHost(&pinned, 16));
  EXPECT_THROW(hooks.getDeviceFromPtr(pinned), c10::Error);
  EXPECT_TRUE(hooks.isPinnedPtr(pinned));
  EXPECT_FALSE(hooks.isPinnedPtr(&pageable));
  OR_ASSERT_OK(orFreeHost(pinned));
}

}  // namespace

}  // namespace torch_openreg::test
