// Pinned host memory: allocated by the driver or registered with it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/background.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using HostMemoryTest = DriverTest;

orMemoryType type_of(const void* ptr) {
  orPointerAttributes attributes{};
  OR_EXPECT_OK(orPointerGetAttributes(&attributes, ptr));
  return attributes.type;
}

// Ordinary memory that is pinned until the end of the scope.
class Registered {
 public:
  Registered(void* ptr, size_t size) : ptr_(ptr) {
    OR_EXPECT_OK(orHostRegister(ptr, size, orHostRegisterDefault));
  }
  ~Registered() { OR_EXPECT_OK(orHostUnregister(ptr_)); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  void* ptr_;
};

TEST_F(HostMemoryTest, PinnedMemoryIsAlignedAndUsableByTheHost) {
  for (const size_t size : {1, 513, 1 << 20}) {
    PinnedBuffer<char> buffer(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.get()) % 512, 0u);
    std::memset(buffer.get(), 5, size);
    EXPECT_EQ(buffer[size - 1], 5);
  }
}

TEST_F(HostMemoryTest, PinnedAllocationsAreCounted) {
  const size_t before = counters().liveHostAllocations;
  {
    const PinnedBuffer<char> buffer(10);
    EXPECT_EQ(counters().liveHostAllocations, before + 1);
  }
  EXPECT_EQ(counters().liveHostAllocations, before);
}

TEST_F(HostMemoryTest, KernelsUsePinnedMemory) {
  PinnedBuffer<char> buffer(64);
  std::memset(buffer.get(), 0, 64);
  OR_EXPECT_OK(
      launch(builtin("fill"), orTestingFillArgs{buffer.get(), 64, 3}, nullptr));
  OR_EXPECT_OK(orDeviceSynchronize());
  EXPECT_EQ(std::count(buffer.get(), buffer.get() + 64, 3), 64);
}

TEST_F(HostMemoryTest, EveryDeviceUsesPinnedMemory) {
  PinnedBuffer<char> buffer(64);
  const OnDevice one(1);
  OR_EXPECT_OK(
      launch(builtin("fill"), orTestingFillArgs{buffer.get(), 64, 4}, nullptr));
  OR_EXPECT_OK(orDeviceSynchronize());
  EXPECT_EQ(std::count(buffer.get(), buffer.get() + 64, 4), 64);
}

TEST_F(HostMemoryTest, MallocHostNeedsAPointer) {
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "ptr", orMallocHost(nullptr, 1));
}

TEST_F(HostMemoryTest, ASizeOfZeroGivesNull) {
  void* ptr = &ptr;
  OR_EXPECT_OK(orMallocHost(&ptr, 0));
  EXPECT_EQ(ptr, nullptr);
}

TEST_F(HostMemoryTest, ANegativeSizeIsRefused) {
  void* ptr = &ptr;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "size",
                       orMallocHost(&ptr, SIZE_MAX));
  EXPECT_EQ(ptr, &ptr);
}

TEST_F(HostMemoryTest, TooMuchIsOutOfMemory) {
  for (const size_t size : {size_t{1} << 60, size_t{PTRDIFF_MAX}}) {
    void* ptr = &ptr;
    OR_EXPECT_ERROR_SAYS(orErrorOutOfMemory, std::to_string(size),
                         orMallocHost(&ptr, size));
    EXPECT_EQ(ptr, nullptr);
  }
}

TEST_F(HostMemoryTest, FreeHostOfNullIsIgnored) {
  OR_EXPECT_OK(orFreeHost(nullptr));
}

TEST_F(HostMemoryTest, FreeingTwiceIsRefused) {
  void* ptr = nullptr;
  OR_ASSERT_OK(orMallocHost(&ptr, 100));
  OR_EXPECT_OK(orFreeHost(ptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "orFreeHost: ptr", orFreeHost(ptr));
}

TEST_F(HostMemoryTest, FreeHostRefusesWhatMallocHostDidNotGive) {
  std::vector<char> pageable(100);
  const Registered registered(pageable.data(), pageable.size());
  const PinnedBuffer<char> pinned(1024);
  const DeviceBuffer<char> device(100);
  int on_stack = 0;
  OR_EXPECT_ERROR(orErrorInvalidValue, orFreeHost(&on_stack));
  OR_EXPECT_ERROR(orErrorInvalidValue, orFreeHost(pinned.get() + 512));
  OR_EXPECT_ERROR(orErrorInvalidValue, orFreeHost(device.get()));
  OR_EXPECT_ERROR(orErrorInvalidValue, orFreeHost(pageable.data()));
}

TEST_F(HostMemoryTest, FreeHostWaitsForTheWorkOfEveryDevice) {
  char* pinned = nullptr;
  OR_ASSERT_OK(orMallocHost(reinterpret_cast<void**>(&pinned), 64));
  const OnDevice one(1);
  const DeviceBuffer<char> device(64);
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(
      launch(builtin("fill"), orTestingFillArgs{pinned, 64, 6}, stream));
  OR_EXPECT_OK(
      orMemcpyAsync(device.get(), pinned, 64, orMemcpyHostToDevice, stream));
  Background free([pinned] { OR_EXPECT_OK(orFreeHost(pinned)); });
  free.settle();
  EXPECT_FALSE(free.done());
  gate.open();
  free.join();
  EXPECT_EQ(device.values(), std::vector<char>(64, 6));
}

TEST_F(HostMemoryTest, RegisteredMemoryIsPinnedUntilItIsUnregistered) {
  std::vector<char> memory(100, 1);
  EXPECT_EQ(type_of(memory.data()), orMemoryTypeUnregistered);
  {
    const Registered registered(memory.data(), memory.size());
    EXPECT_EQ(type_of(memory.data()), orMemoryTypeHost);
    EXPECT_EQ(type_of(memory.data() + 99), orMemoryTypeHost);
    EXPECT_EQ(type_of(memory.data() + 100), orMemoryTypeUnregistered);
  }
  EXPECT_EQ(type_of(memory.data()), orMemoryTypeUnregistered);
  EXPECT_EQ(memory, std::vector<char>(100, 1));
}

// Registered memory stays where it is, in the program: copies reach it, kernels
// of a device in another process do not.
TEST_F(HostMemoryTest, KernelsOfAnIsolatedDeviceDoNotReachRegisteredMemory) {
  if (!is_isolated()) GTEST_SKIP() << "kernels run in this process";
  expect_leftovers();
  std::vector<char> memory(100, 1);
  const OnDevice one(1);
  {
    const Registered registered(memory.data(), memory.size());
    OR_EXPECT_OK(launch(builtin("fill"),
                        orTestingFillArgs{memory.data(), 80, 2}, nullptr));
    OR_EXPECT_ERROR(orErrorIllegalAddress, orDeviceSynchronize());
  }
  EXPECT_EQ(memory, std::vector<char>(100, 1));
  OR_EXPECT_OK(orDeviceReset());
}

TEST_F(HostMemoryTest, KernelsUseRegisteredMemory) {
  if (is_isolated()) GTEST_SKIP() << "kernels run in another process";
  std::vector<char> memory(100, 1);
  const Registered registered(memory.data(), memory.size());
  OR_EXPECT_OK(launch(builtin("fill"),
                      orTestingFillArgs{memory.data() + 10, 80, 2}, nullptr));
  OR_EXPECT_OK(orDeviceSynchronize());
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 2), 80);
  EXPECT_EQ(memory[9], 1);
  EXPECT_EQ(memory[90], 1);
}

TEST_F(HostMemoryTest, MemoryCanBeRegisteredAgain) {
  std::vector<char> memory(100);
  for (int round = 0; round < 3; ++round) {
    const Registered registered(memory.data(), memory.size());
    EXPECT_EQ(type_of(memory.data()), orMemoryTypeHost);
  }
}

TEST_F(HostMemoryTest, NeighboursCanBeRegistered) {
  std::vector<char> memory(300);
  const Registered middle(memory.data() + 100, 100);
  const Registered left(memory.data(), 100);
  const Registered right(memory.data() + 200, 100);
  EXPECT_EQ(type_of(memory.data() + 299), orMemoryTypeHost);
}

TEST_F(HostMemoryTest, RegisterRefusesBadArguments) {
  char byte = 0;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "ptr",
                       orHostRegister(nullptr, 1, 0));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "size",
                       orHostRegister(&byte, 0, 0));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags",
                       orHostRegister(&byte, 1, 1));
  for (const size_t size : {SIZE_MAX, size_t{1} << 62}) {
    OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(&byte, size, 0));
  }
  EXPECT_EQ(type_of(&byte), orMemoryTypeUnregistered);
}

TEST_F(HostMemoryTest, RegisterRefusesMemoryThatIsNotMapped) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* memory = static_cast<char*>(mapped);
  ASSERT_EQ(munmap(memory + page, page), 0);
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(memory, page + 1, 0));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(memory + page, 1, 0));
  OR_EXPECT_OK(orHostRegister(memory, page, 0));
  OR_EXPECT_OK(orHostUnregister(memory));
  EXPECT_EQ(munmap(memory, page), 0);
}

TEST_F(HostMemoryTest, RegisterRefusesDeviceMemory) {
  const DeviceBuffer<char> device(100);
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(device.get(), 100, 0));
}

TEST_F(HostMemoryTest, RegisterRefusesPinnedMemory) {
  const PinnedBuffer<char> pinned(1000);
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(pinned.get(), 1000, 0));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(pinned.get() + 9, 1, 0));
}

TEST_F(HostMemoryTest, RegisterRefusesWhatOverlapsARegisteredRange) {
  std::vector<char> memory(300);
  char* const start = memory.data();
  const Registered middle(start + 100, 100);
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(start + 100, 100, 0));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(start + 120, 10, 0));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(start + 50, 51, 0));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(start + 199, 50, 0));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostRegister(start, 300, 0));
  EXPECT_EQ(type_of(start + 50), orMemoryTypeUnregistered);
}

TEST_F(HostMemoryTest, UnregisterRefusesWhatWasNotRegistered) {
  std::vector<char> memory(100);
  const Registered registered(memory.data(), memory.size());
  const PinnedBuffer<char> pinned(100);
  const DeviceBuffer<char> device(100);
  int on_stack = 0;
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostUnregister(nullptr));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostUnregister(&on_stack));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostUnregister(memory.data() + 1));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostUnregister(pinned.get()));
  OR_EXPECT_ERROR(orErrorInvalidValue, orHostUnregister(device.get()));
  EXPECT_EQ(type_of(memory.data()), orMemoryTypeHost);
}

TEST_F(HostMemoryTest, UnregisteringTwiceIsRefused) {
  std::vector<char> memory(100);
  OR_EXPECT_OK(orHostRegister(memory.data(), memory.size(), 0));
  OR_EXPECT_OK(orHostUnregister(memory.data()));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "orHostUnregister: ptr",
                       orHostUnregister(memory.data()));
}

TEST_F(HostMemoryTest, UnregisterWaitsForTheWorkOfEveryDevice) {
  std::vector<char> memory(64);
  OR_EXPECT_OK(orHostRegister(memory.data(), memory.size(), 0));
  const OnDevice one(1);
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orMemsetAsync(memory.data(), 6, memory.size(), stream));
  Background unregister(
      [&memory] { OR_EXPECT_OK(orHostUnregister(memory.data())); });
  unregister.settle();
  EXPECT_FALSE(unregister.done());
  gate.open();
  unregister.join();
  EXPECT_EQ(memory, std::vector<char>(64, 6));
}

}  // namespace
}  // namespace openreg::test
