// Peer access: when kernels of one device may use the memory of another. Copies
// between devices need no permission; they are in copy_order_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/background.h"
#include "support/work.h"

namespace openreg::test {
namespace {

// Why a test is left out.
constexpr const char* kNoPeers =
    "devices in processes of their own can't access each other";

// Starts with a buffer on each of two devices, ends with a reset of both.
class PeerTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    here_ = device_malloc(kSize);
    const OnDevice one(1);
    there_ = device_malloc(kSize);
    OR_ASSERT_OK(orMemset(there_, 7, kSize));
    OR_ASSERT_OK(orDeviceSynchronize());
  }
  void TearDown() override {
    for (const int device : {1, 0}) {
      OR_EXPECT_OK(orSetDevice(device));
      OR_EXPECT_OK(orDeviceReset());
    }
    DriverTest::TearDown();
  }

  // Runs a kernel on the current device that copies `src` to `dst`.
  static orError_t run_copy(char* dst, const char* src) {
    const orTestingCopyArgs args{dst, src, kSize};
    return orLaunchKernelSync(builtin("copy"), &args, sizeof args, nullptr,
                              nullptr, 0, nullptr);
  }

  static constexpr size_t kSize = 64;
  char* here_ = nullptr;   // on device 0
  char* there_ = nullptr;  // on device 1, all 7
};

TEST_F(PeerTest, DevicesCanAccessEachOtherButAreNotTheirOwnPeers) {
  for (const int device : {0, 1}) {
    for (const int peer : {0, 1}) {
      int can_access = -1;
      OR_EXPECT_OK(orDeviceCanAccessPeer(&can_access, device, peer));
      EXPECT_EQ(can_access, device == peer || is_isolated() ? 0 : 1);
    }
  }
}

TEST_F(PeerTest, CanAccessPeerRefusesBadArguments) {
  int can_access = 0;
  OR_EXPECT_ERROR(orErrorInvalidValue, orDeviceCanAccessPeer(nullptr, 0, 1));
  for (const int device : {-1, device_count()}) {
    OR_EXPECT_ERROR(orErrorInvalidDevice,
                    orDeviceCanAccessPeer(&can_access, device, 1));
    OR_EXPECT_ERROR(orErrorInvalidDevice,
                    orDeviceCanAccessPeer(&can_access, 0, device));
  }
}

TEST_F(PeerTest, EnableRefusesBadArguments) {
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags",
                       orDeviceEnablePeerAccess(1, 1));
  for (const int device : {-1, device_count(), 0 /* the current one */}) {
    OR_EXPECT_ERROR_SAYS(orErrorInvalidDevice, "peerDevice",
                         orDeviceEnablePeerAccess(device, 0));
  }
}

TEST_F(PeerTest, IsolatedDevicesHaveNoPeers) {
  if (!is_isolated()) GTEST_SKIP() << "these devices have";
  OR_EXPECT_ERROR(orErrorNotSupported, orDeviceEnablePeerAccess(1, 0));
  OR_EXPECT_ERROR(orErrorInvalidValue, orDeviceDisablePeerAccess(1));
}

TEST_F(PeerTest, EnablingTwiceIsRefused) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  OR_EXPECT_ERROR(orErrorInvalidValue, orDeviceEnablePeerAccess(1, 0));
  OR_EXPECT_OK(orDeviceDisablePeerAccess(1));
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
}

TEST_F(PeerTest, DisableRefusesBadArguments) {
  OR_EXPECT_ERROR(orErrorInvalidValue, orDeviceDisablePeerAccess(1));
  for (const int device : {-1, device_count()}) {
    OR_EXPECT_ERROR(orErrorInvalidDevice, orDeviceDisablePeerAccess(device));
  }
}

TEST_F(PeerTest, DisablingTwiceIsRefused) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  OR_EXPECT_OK(orDeviceDisablePeerAccess(1));
  OR_EXPECT_ERROR(orErrorInvalidValue, orDeviceDisablePeerAccess(1));
}

TEST_F(PeerTest, AKernelUsesItsPeerWhenAccessIsEnabled) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  OR_EXPECT_OK(run_copy(here_, there_));
  std::vector<char> bytes(kSize);
  OR_EXPECT_OK(orMemcpy(bytes.data(), here_, kSize, orMemcpyDeviceToHost));
  EXPECT_EQ(bytes, std::vector<char>(kSize, 7));
}

TEST_F(PeerTest, AKernelWritesToItsPeerWhenAccessIsEnabled) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  OR_EXPECT_OK(orMemset(here_, 3, kSize));
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  OR_EXPECT_OK(run_copy(there_, here_));
  std::vector<char> bytes(kSize);
  OR_EXPECT_OK(orMemcpy(bytes.data(), there_, kSize, orMemcpyDeviceToHost));
  EXPECT_EQ(bytes, std::vector<char>(kSize, 3));
}

TEST_F(PeerTest, AKernelThatUsesAnotherDeviceWithoutAccessIsIllegal) {
  OR_EXPECT_ERROR_SAYS(orErrorIllegalAddress, "copy", run_copy(here_, there_));
}

TEST_F(PeerTest, AnIllegalAddressStaysUntilTheDeviceIsReset) {
  const orTestingCopyArgs args{here_, there_, kSize};
  OR_EXPECT_OK(launch(builtin("copy"), args, nullptr));
  for (int i = 0; i < 2; ++i) {
    OR_EXPECT_ERROR_SAYS(orErrorIllegalAddress, "kernel 'copy'",
                         orDeviceSynchronize());
    OR_EXPECT_ERROR(orErrorIllegalAddress, orMemset(here_, 0, kSize));
    OR_EXPECT_ERROR(orErrorIllegalAddress,
                    orLaunchKernel(builtin("empty"), nullptr, 0, nullptr));
  }
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_OK(orDeviceSynchronize());
  OR_EXPECT_OK(orLaunchKernel(builtin("empty"), nullptr, 0, nullptr));
}

TEST_F(PeerTest, AnIllegalAddressLeavesThePeerAlone) {
  OR_EXPECT_ERROR(orErrorIllegalAddress, run_copy(there_, here_));
  const OnDevice one(1);
  OR_EXPECT_OK(orDeviceSynchronize());
  std::vector<char> bytes(kSize);
  OR_EXPECT_OK(orMemcpy(bytes.data(), there_, kSize, orMemcpyDeviceToHost));
  EXPECT_EQ(bytes, std::vector<char>(kSize, 7));
}

TEST_F(PeerTest, AccessGoesInOneDirection) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  const OnDevice one(1);
  OR_EXPECT_ERROR(orErrorIllegalAddress, run_copy(there_, here_));
}

TEST_F(PeerTest, DisablingTakesTheAccessAway) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  OR_EXPECT_OK(run_copy(here_, there_));
  OR_EXPECT_OK(orDeviceDisablePeerAccess(1));
  OR_EXPECT_ERROR(orErrorIllegalAddress, run_copy(here_, there_));
}

TEST_F(PeerTest, DisablingWaitsForAKernelThatUsesThePeer) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  SharedWord started;
  SharedWord go;
  TestModule module;
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  const WriteLateArgs args{started.get(), go.get(),
                           reinterpret_cast<unsigned char*>(there_)};
  OR_EXPECT_OK(launch(module["write_late"], args, nullptr));
  EXPECT_TRUE(eventually([&] { return started.load() == 1; }));
  Background disable([] { OR_EXPECT_OK(orDeviceDisablePeerAccess(1)); });
  disable.settle();
  EXPECT_FALSE(disable.done());
  go.store(1);
  disable.join();
  char byte = 0;
  OR_EXPECT_OK(orMemcpy(&byte, there_, 1, orMemcpyDeviceToHost));
  EXPECT_EQ(byte, 1);
}

TEST_F(PeerTest, AResetOfTheDeviceTakesItsAccessAway) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  OR_EXPECT_OK(orDeviceReset());
  OR_EXPECT_ERROR(orErrorInvalidValue, orDeviceDisablePeerAccess(1));
  here_ = device_malloc(kSize);
  OR_EXPECT_ERROR(orErrorIllegalAddress, run_copy(here_, there_));
}

TEST_F(PeerTest, AResetOfThePeerTakesTheAccessAway) {
  if (is_isolated()) GTEST_SKIP() << kNoPeers;
  OR_EXPECT_OK(orDeviceEnablePeerAccess(1, 0));
  {
    const OnDevice one(1);
    OR_EXPECT_OK(orDeviceReset());
    there_ = device_malloc(kSize);
  }
  OR_EXPECT_ERROR(orErrorInvalidValue, orDeviceDisablePeerAccess(1));
  OR_EXPECT_ERROR(orErrorIllegalAddress, run_copy(here_, there_));
}

}  // namespace
}  // namespace openreg::test
