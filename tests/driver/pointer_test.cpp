// orPointerGetAttributes: what the driver knows about an address.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/work.h"

namespace openreg::test {
namespace {

using PointerTest = DriverTest;

orPointerAttributes attributes_of(const void* ptr) {
  orPointerAttributes result;
  std::memset(&result, 0xff, sizeof result);
  OR_EXPECT_OK(orPointerGetAttributes(&result, ptr));
  return result;
}

void expect_unregistered(const void* ptr) {
  const orPointerAttributes attributes = attributes_of(ptr);
  EXPECT_EQ(attributes.type, orMemoryTypeUnregistered);
  EXPECT_EQ(attributes.device, -1);
  EXPECT_EQ(attributes.devicePointer, nullptr);
  EXPECT_EQ(attributes.hostPointer, ptr);
  EXPECT_EQ(attributes.base, nullptr);
  EXPECT_EQ(attributes.size, 0u);
}

void expect_pinned(const char* ptr, const char* base, size_t size) {
  const orPointerAttributes attributes = attributes_of(ptr);
  EXPECT_EQ(attributes.type, orMemoryTypeHost);
  EXPECT_EQ(attributes.device, -1);
  EXPECT_EQ(attributes.devicePointer, ptr);
  EXPECT_EQ(attributes.hostPointer, ptr);
  EXPECT_EQ(attributes.base, base);
  EXPECT_EQ(attributes.size, size);
}

void expect_device(const char* ptr, const char* base, size_t size, int device) {
  const orPointerAttributes attributes = attributes_of(ptr);
  EXPECT_EQ(attributes.type, orMemoryTypeDevice);
  EXPECT_EQ(attributes.device, device);
  EXPECT_EQ(attributes.devicePointer, ptr);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  EXPECT_EQ(attributes.base, base);
  EXPECT_EQ(attributes.size, size);
}

TEST_F(PointerTest, AttributesNeedAPointer) {
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "attributes",
                       orPointerGetAttributes(nullptr, nullptr));
}

TEST_F(PointerTest, UnknownAddressesAreUnregistered) {
  int on_stack = 0;
  const std::vector<char> on_heap(1 << 20);
  static int in_image = 0;
  for (const void* ptr :
       {static_cast<const void*>(nullptr), static_cast<const void*>(&on_stack),
        static_cast<const void*>(on_heap.data()),
        static_cast<const void*>(&in_image), reinterpret_cast<const void*>(1),
        reinterpret_cast<const void*>(UINTPTR_MAX)}) {
    expect_unregistered(ptr);
  }
}

TEST_F(PointerTest, DeviceMemoryIsKnownFromItsFirstToItsLastByte) {
  const DeviceBuffer<char> buffer(1000);
  for (const size_t offset : {0, 1, 512, 999}) {
    expect_device(buffer.get() + offset, buffer.get(), 1000, 0);
  }
}

TEST_F(PointerTest, TheDeviceIsThatOfTheAllocation) {
  const OnDevice one(1);
  const DeviceBuffer<char> buffer(100);
  expect_device(buffer.get(), buffer.get(), 100, 1);
  OR_EXPECT_OK(orSetDevice(0));
  expect_device(buffer.get(), buffer.get(), 100, 1);
}

TEST_F(PointerTest, NeighboursAreToldApart) {
  const DeviceBuffer<char> first(512);
  const DeviceBuffer<char> second(512);
  expect_device(first.get() + 511, first.get(), 512, 0);
  expect_device(second.get(), second.get(), 512, 0);
}

TEST_F(PointerTest, AnAddressThatWasLookedUpIsForgottenWhenItsBlockGoes) {
  char* const before = device_malloc(1000);
  expect_device(before + 700, before, 1000, 0);
  OR_ASSERT_OK(orFree(before));
  orPointerAttributes attributes;
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orPointerGetAttributes(&attributes, before + 700));
  const DeviceBuffer<char> after(900);
  ASSERT_EQ(after.get(), before) << "the place of a freed block is used again";
  expect_device(before + 700, before, 900, 0);
}

TEST_F(PointerTest, LookingUpWhileBlocksComeAndGoFindsWhatIsThere) {
  const DeviceBuffer<char> stays(512);
  std::atomic<bool> stop{false};
  std::thread churn([&] {
    while (!stop.load()) {
      const DeviceBuffer<char> neighbour(512);
      expect_device(neighbour.get(), neighbour.get(), 512, 0);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    expect_device(stays.get() + 511, stays.get(), 512, 0);
  }
  stop.store(true);
  churn.join();
}

TEST_F(PointerTest, PinnedMemoryIsKnownFromItsFirstToItsLastByte) {
  const PinnedBuffer<char> buffer(1000);
  for (const size_t offset : {0, 1, 512, 999}) {
    expect_pinned(buffer.get() + offset, buffer.get(), 1000);
  }
}

TEST_F(PointerTest, FreedPinnedMemoryIsUnregistered) {
  void* ptr = nullptr;
  OR_ASSERT_OK(orMallocHost(&ptr, 100));
  OR_EXPECT_OK(orFreeHost(ptr));
  expect_unregistered(ptr);
}

TEST_F(PointerTest, RegisteredMemoryIsPinned) {
  std::vector<char> memory(300);
  char* const base = memory.data() + 100;
  OR_ASSERT_OK(orHostRegister(base, 100, orHostRegisterDefault));
  expect_unregistered(base - 1);
  expect_pinned(base, base, 100);
  expect_pinned(base + 99, base, 100);
  expect_unregistered(base + 100);
  OR_EXPECT_OK(orHostUnregister(base));
  expect_unregistered(base);
}

TEST_F(PointerTest, FreedDeviceMemoryIsRefused) {
  char* ptr = device_malloc(1000);
  OR_EXPECT_OK(orFree(ptr));
  orPointerAttributes attributes;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "orPointerGetAttributes: ptr",
                       orPointerGetAttributes(&attributes, ptr));
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orPointerGetAttributes(&attributes, ptr + 500));
}

TEST_F(PointerTest, DeviceMemoryThatNobodyHasIsRefused) {
  size_t total = 0;
  OR_ASSERT_OK(orMemGetInfo(nullptr, &total));
  char* everything = device_malloc(total);
  expect_device(everything + total - 1, everything, total, 0);
  OR_ASSERT_OK(orFree(everything));

  const DeviceBuffer<char> small(512);
  orPointerAttributes attributes;
  for (const size_t offset : {size_t{0}, total / 2, total - 1}) {
    const char* ptr = everything + offset;
    if (ptr >= small.get() && ptr < small.get() + 512) continue;
    OR_EXPECT_ERROR(orErrorInvalidValue,
                    orPointerGetAttributes(&attributes, ptr));
  }
}

TEST_F(PointerTest, MemoryFromBeforeAResetIsRefused) {
  char* ptr = device_malloc(1000);
  OR_ASSERT_OK(orDeviceReset());
  orPointerAttributes attributes;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "reset",
                       orPointerGetAttributes(&attributes, ptr));
}

TEST_F(PointerTest, AttributesDoNotWaitForWork) {
  const DeviceBuffer<char> buffer(100);
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  expect_device(buffer.get(), buffer.get(), 100, 0);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
}

}  // namespace
}  // namespace openreg::test
