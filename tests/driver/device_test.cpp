// Devices: counting, choosing, describing and waiting for them, and what they
// cost while nobody uses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "support/background.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using DeviceTest = DriverTest;

int current_device() {
  int device = -1;
  OR_EXPECT_OK(orGetDevice(&device));
  return device;
}

TEST_F(DeviceTest, CountNeedsAPointer) {
  OR_EXPECT_ERROR(orErrorInvalidValue, orGetDeviceCount(nullptr));
}

TEST_F(DeviceTest, GetDeviceNeedsAPointer) {
  OR_EXPECT_ERROR(orErrorInvalidValue, orGetDevice(nullptr));
}

TEST_F(DeviceTest, EveryDeviceCanBeMadeCurrent) {
  for (int device = 0; device < device_count(); ++device) {
    OR_EXPECT_OK(orSetDevice(device));
    EXPECT_EQ(current_device(), device);
  }
}

TEST_F(DeviceTest, ANewThreadStartsOnDeviceZero) {
  const OnDevice one(1);
  std::thread([] { EXPECT_EQ(current_device(), 0); }).join();
}

TEST_F(DeviceTest, TheCurrentDeviceBelongsToTheThread) {
  std::thread([] { OR_EXPECT_OK(orSetDevice(1)); }).join();
  EXPECT_EQ(current_device(), 0);
}

TEST_F(DeviceTest, DevicesOutOfRangeAreRefusedAndTheCurrentOneStays) {
  const OnDevice one(1);
  for (const int device : {-1, device_count(), INT_MAX, INT_MIN}) {
    OR_EXPECT_ERROR_SAYS(orErrorInvalidDevice, std::to_string(device),
                         orSetDevice(device));
    EXPECT_EQ(current_device(), 1);
  }
}

TEST_F(DeviceTest, PropertiesNeedAPointerAndADevice) {
  orDeviceProp properties;
  OR_EXPECT_ERROR(orErrorInvalidValue, orGetDeviceProperties(nullptr, 0));
  for (const int device : {-1, device_count(), INT_MAX}) {
    OR_EXPECT_ERROR(orErrorInvalidDevice,
                    orGetDeviceProperties(&properties, device));
  }
}

TEST_F(DeviceTest, PropertiesDescribeTheDevice) {
  const char* driver = std::getenv("OPENREG_DRIVER");
  const bool isolated = driver != nullptr && driver == std::string("isolated");
  for (int device = 0; device < device_count(); ++device) {
    orDeviceProp properties;
    std::memset(&properties, 0xff, sizeof properties);
    OR_ASSERT_OK(orGetDeviceProperties(&properties, device));
    ASSERT_NE(std::memchr(properties.name, 0, sizeof properties.name), nullptr);
    EXPECT_GT(std::strlen(properties.name), 0u);
    EXPECT_GE(properties.major, 0);
    EXPECT_GE(properties.minor, 0);
    EXPECT_GE(properties.multiProcessorCount, 1);
    EXPECT_LE(properties.multiProcessorCount, 1 << 16);
    EXPECT_GE(properties.clockRate, 0);
    EXPECT_GE(properties.coreCount, 1);
    EXPECT_EQ(properties.memoryAlignment, 512u);
    EXPECT_GE(properties.maxKernelArguments, 4096u);
    EXPECT_EQ(properties.concurrentKernels, 1);
    EXPECT_GE(properties.asyncEngineCount, 1);
    EXPECT_EQ(properties.unifiedAddressing, 1);
    EXPECT_EQ(properties.integrated, 0);
    EXPECT_EQ(properties.isolated, isolated ? 1 : 0);
    EXPECT_EQ(properties.failuresStay, 0);
  }
}

TEST_F(DeviceTest, PropertiesAndMemGetInfoAgreeAboutTheMemory) {
  for (int device = 0; device < device_count(); ++device) {
    const OnDevice on(device);
    orDeviceProp properties{};
    OR_ASSERT_OK(orGetDeviceProperties(&properties, device));
    size_t total = 0;
    OR_ASSERT_OK(orMemGetInfo(nullptr, &total));
    EXPECT_EQ(properties.totalGlobalMem, total);
  }
}

TEST_F(DeviceTest, PropertiesDoNotChangeTheCurrentDevice) {
  orDeviceProp properties{};
  OR_ASSERT_OK(orGetDeviceProperties(&properties, 1));
  EXPECT_EQ(current_device(), 0);
}

TEST_F(DeviceTest, PrioritiesGoFromZeroDownwards) {
  int least = 99;
  int greatest = 99;
  OR_ASSERT_OK(orDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, 0);
}

TEST_F(DeviceTest, ThePriorityRangeTakesNullPointers) {
  int least = 99;
  int greatest = 99;
  OR_EXPECT_OK(orDeviceGetStreamPriorityRange(&least, nullptr));
  OR_EXPECT_OK(orDeviceGetStreamPriorityRange(nullptr, &greatest));
  OR_EXPECT_OK(orDeviceGetStreamPriorityRange(nullptr, nullptr));
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, 0);
}

TEST_F(DeviceTest, SynchronizeWaitsForEveryStream) {
  const Stream first;
  const Stream second(orStreamDefault);
  Gate first_gate;
  Gate second_gate;
  first_gate.hold(first);
  second_gate.hold(second);
  Background wait([] { OR_EXPECT_OK(orDeviceSynchronize()); });
  wait.settle();
  EXPECT_FALSE(wait.done());
  first_gate.open();
  wait.settle();
  EXPECT_FALSE(wait.done());
  second_gate.open();
  wait.join();
  OR_EXPECT_OK(orStreamQuery(first));
  OR_EXPECT_OK(orStreamQuery(second));
}

TEST_F(DeviceTest, SynchronizeDoesNotWaitForOtherDevices) {
  const OnDevice one(1);
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orSetDevice(0));
  OR_EXPECT_OK(orDeviceSynchronize());
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
}

TEST_F(DeviceTest, SynchronizeDoesNotWaitForLaterWork) {
  const Stream stream;
  Gate first;
  Gate later;
  first.hold(stream);
  first.await();
  Background wait([] { OR_EXPECT_OK(orDeviceSynchronize()); });
  wait.settle();
  EXPECT_FALSE(wait.done());
  later.hold(stream);
  first.open();
  wait.join();
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
}

OPENREG_CHILD(devices_as_configured) {
  int count = 0;
  CHILD_CHECK(orGetDeviceCount(&count) == orSuccess);
  CHILD_CHECK(count == 3);
  for (int device = 0; device < count; ++device) {
    orDeviceProp properties{};
    CHILD_CHECK(orGetDeviceProperties(&properties, device) == orSuccess);
    CHILD_CHECK(properties.totalGlobalMem == size_t{64} << 20);
  }
  CHILD_CHECK(orSetDevice(3) == orErrorInvalidDevice);
  return 0;
}

TEST_F(DeviceTest, NumberAndMemoryOfDevicesAreTheEnvironments) {
  expect_child_passes("devices_as_configured",
                      {{"OPENREG_DEVICES", "3"}, {"OPENREG_MEMORY", "64MiB"}});
}

OPENREG_CHILD(no_devices) {
  int count = -1;
  int device = -1;
  void* ptr = nullptr;
  orStream_t stream = nullptr;
  CHILD_CHECK(orGetDeviceCount(&count) == orSuccess);
  CHILD_CHECK(count == 0);
  CHILD_CHECK(orGetDevice(&device) == orErrorInvalidDevice);
  CHILD_CHECK(orSetDevice(0) == orErrorInvalidDevice);
  CHILD_CHECK(orMalloc(&ptr, 1) == orErrorInvalidDevice);
  CHILD_CHECK(orStreamCreate(&stream) == orErrorInvalidDevice);
  CHILD_CHECK(orDeviceSynchronize() == orErrorInvalidDevice);
  return 0;
}

TEST_F(DeviceTest, NoDevicesIsAValidNumber) {
  expect_child_passes("no_devices", {{"OPENREG_DEVICES", "0"}});
}

OPENREG_CHILD(choosing_opens_no_device) {
  const size_t threads = thread_ids().size();
  int count = 0;
  int least = 0;
  int greatest = 0;
  CHILD_CHECK(orGetDeviceCount(&count) == orSuccess);
  for (int device = 0; device < count; ++device) {
    CHILD_CHECK(orSetDevice(device) == orSuccess);
    CHILD_CHECK(orGetDevice(&device) == orSuccess);
  }
  CHILD_CHECK(orDeviceGetStreamPriorityRange(&least, &greatest) == orSuccess);
  CHILD_CHECK(counters().openDevices == 0);
  CHILD_CHECK(counters().workerThreads == 0);
  CHILD_CHECK(thread_ids().size() == threads);
  return 0;
}

TEST_F(DeviceTest, CountingAndChoosingOpenNoDevice) {
  expect_child_passes("choosing_opens_no_device", {{"OPENREG_DEVICES", "64"}});
}

OPENREG_CHILD(describing_is_cheap) {
  const size_t threads = thread_ids().size();
  const size_t resident = resident_bytes();
  size_t free_bytes = 0;
  for (int device = 0; device < 64; ++device) {
    orDeviceProp properties{};
    CHILD_CHECK(orGetDeviceProperties(&properties, device) == orSuccess);
    CHILD_CHECK(orSetDevice(device) == orSuccess);
    CHILD_CHECK(orMemGetInfo(&free_bytes, nullptr) == orSuccess);
    CHILD_CHECK(free_bytes == properties.totalGlobalMem);
  }
  CHILD_CHECK(counters().openDevices == 64);
  CHILD_CHECK(counters().workerThreads == 0);
  CHILD_CHECK(thread_ids().size() == threads);
  CHILD_CHECK(resident_bytes() < resident + (size_t{16} << 20));
  return 0;
}

TEST_F(DeviceTest, DescribingDevicesCostsNeitherThreadsNorMemory) {
  expect_child_passes("describing_is_cheap", {{"OPENREG_DEVICES", "64"},
                                              {"OPENREG_MEMORY", "256MiB"}});
}

OPENREG_CHILD(first_use_starts_one_worker) {
  // A sanitizer starts a thread of its own with the first that it sees.
  std::thread([] {}).join();
  const size_t threads = thread_ids().size();
  char bytes[100] = {};
  void* ptr = nullptr;
  CHILD_CHECK(orMalloc(&ptr, sizeof bytes) == orSuccess);
  CHILD_CHECK(counters().workerThreads == 0);
  CHILD_CHECK(orMemset(ptr, 7, sizeof bytes) == orSuccess);
  CHILD_CHECK(launch(builtin("fill"), orTestingFillArgs{ptr, 50, 8}, nullptr) ==
              orSuccess);
  CHILD_CHECK(orMemcpy(bytes, ptr, sizeof bytes, orMemcpyDeviceToHost) ==
              orSuccess);
  CHILD_CHECK(bytes[49] == 8 && bytes[50] == 7);
  CHILD_CHECK(orDeviceSynchronize() == orSuccess);
  CHILD_CHECK(orFree(ptr) == orSuccess);
  CHILD_CHECK(counters().openDevices == 1);
  CHILD_CHECK(counters().workerThreads <= 1);
  // A device process has threads of its own besides its workers.
  CHILD_CHECK(is_isolated() || thread_ids().size() <= threads + 1);
  return 0;
}

TEST_F(DeviceTest, TheFirstUseOfADeviceStartsAtMostOneThread) {
  expect_child_passes("first_use_starts_one_worker",
                      {{"OPENREG_DEVICES", "8"}});
}

OPENREG_CHILD(synchronize_unused) {
  CHILD_CHECK(orDeviceSynchronize() == orSuccess);
  CHILD_CHECK(counters().workerThreads == 0);
  return 0;
}

TEST_F(DeviceTest, AnUnusedDeviceIsSynchronizedAtOnce) {
  expect_child_passes("synchronize_unused", {});
}

}  // namespace
}  // namespace openreg::test
