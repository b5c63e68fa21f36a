// Device memory: orMalloc, orFree and orMemGetInfo. Pinned memory is in
// host_memory_test.cpp, what can be done with memory in copy_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/background.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using MemoryTest = DriverTest;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

size_t free_bytes() {
  size_t result = 0;
  OR_EXPECT_OK(orMemGetInfo(&result, nullptr));
  return result;
}

size_t total_bytes() {
  size_t result = 0;
  OR_EXPECT_OK(orMemGetInfo(nullptr, &result));
  return result;
}

TEST_F(MemoryTest, AllocationsAreAlignedAndApart) {
  std::vector<char*> blocks;
  for (const size_t size : {1, 511, 512, 513, 4096, 100000}) {
    blocks.push_back(device_malloc(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 512, 0u) << size;
  }
  std::vector<char*> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (char* block : blocks) OR_EXPECT_OK(orFree(block));
}

TEST_F(MemoryTest, MallocNeedsAPointer) {
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "ptr", orMalloc(nullptr, 1));
}

TEST_F(MemoryTest, ASizeOfZeroGivesNull) {
  const size_t before = counters().liveAllocations;
  void* ptr = &ptr;
  OR_EXPECT_OK(orMalloc(&ptr, 0));
  EXPECT_EQ(ptr, nullptr);
  EXPECT_EQ(counters().liveAllocations, before);
}

TEST_F(MemoryTest, ANegativeSizeIsRefused) {
  for (const size_t size : {SIZE_MAX, SIZE_MAX - 511, size_t{1} << 63}) {
    void* ptr = &ptr;
    OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "size", orMalloc(&ptr, size));
    EXPECT_EQ(ptr, &ptr);
  }
}

TEST_F(MemoryTest, TooMuchIsOutOfMemoryAndTheDeviceGoesOn) {
  for (const size_t size :
       {total_bytes() + 1, size_t{1} << 50, size_t{PTRDIFF_MAX}}) {
    void* ptr = &ptr;
    OR_EXPECT_ERROR_SAYS(orErrorOutOfMemory, std::to_string(size),
                         orMalloc(&ptr, size));
    EXPECT_EQ(ptr, nullptr);
  }
  DeviceBuffer<int> buffer(3);
  buffer.set({1, 2, 3});
  EXPECT_EQ(buffer.values(), (std::vector<int>{1, 2, 3}));
}

TEST_F(MemoryTest, TheWholeMemoryCanBeAllocatedAtOnce) {
  ASSERT_EQ(free_bytes(), total_bytes());
  char* everything = device_malloc(total_bytes());
  EXPECT_EQ(free_bytes(), 0u);
  void* ptr = nullptr;
  OR_EXPECT_ERROR(orErrorOutOfMemory, orMalloc(&ptr, 1));
  OR_EXPECT_OK(orFree(everything));
  EXPECT_EQ(free_bytes(), total_bytes());
}

TEST_F(MemoryTest, FreeMemoryShrinksByTheSizeRoundedUp) {
  const size_t before = free_bytes();
  char* one = device_malloc(1);
  EXPECT_EQ(free_bytes(), before - 512);
  char* two = device_malloc(512);
  EXPECT_EQ(free_bytes(), before - 1024);
  char* three = device_malloc(513);
  EXPECT_EQ(free_bytes(), before - 2048);
  OR_EXPECT_OK(orFree(two));
  EXPECT_EQ(free_bytes(), before - 1536);
  OR_EXPECT_OK(orFree(one));
  OR_EXPECT_OK(orFree(three));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(MemoryTest, DevicesHaveMemoryOfTheirOwn) {
  const size_t before = free_bytes();
  const OnDevice one(1);
  const size_t before_on_one = free_bytes();
  const DeviceBuffer<char> buffer(4096);
  EXPECT_EQ(free_bytes(), before_on_one - 4096);
  OR_EXPECT_OK(orSetDevice(0));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(MemoryTest, MemGetInfoTakesNullPointers) {
  OR_EXPECT_OK(orMemGetInfo(nullptr, nullptr));
}

TEST_F(MemoryTest, MemGetInfoDoesNotWaitForWork) {
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  EXPECT_GT(total_bytes(), 0u);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
}

TEST_F(MemoryTest, FreeOfNullIsIgnored) { OR_EXPECT_OK(orFree(nullptr)); }

TEST_F(MemoryTest, FreeingTwiceIsRefused) {
  char* ptr = device_malloc(100);
  OR_EXPECT_OK(orFree(ptr));
  const size_t before = free_bytes();
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "orFree: ptr", orFree(ptr));
  EXPECT_EQ(free_bytes(), before);
}

// However long ago that was: the driver does not remember every block.
TEST_F(MemoryTest, MemoryThatWasFreedIsNeverSaidToHaveNeverBeen) {
  OR_ASSERT_OK(orDeviceReset());  // addresses that nobody has had
  std::vector<char*> blocks(2001);
  for (char*& block : blocks) block = device_malloc(512);
  for (char* block : blocks) OR_ASSERT_OK(orFree(block));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue,
                       "memory of device 0 that belongs to no live allocation",
                       orFree(blocks[0]));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue,
                       "memory of device 0 that was never allocated",
                       orFree(blocks[0] + 64 * kMiB));
}

TEST_F(MemoryTest, FreeingTheInsideOfAnAllocationIsRefused) {
  char* ptr = device_malloc(2048);
  for (const size_t offset : {1, 512, 2047}) {
    OR_EXPECT_ERROR(orErrorInvalidValue, orFree(ptr + offset));
  }
  OR_EXPECT_OK(orFree(ptr));
}

TEST_F(MemoryTest, FreeingHostMemoryIsRefused) {
  int on_stack = 0;
  std::vector<char> on_heap(100);
  const PinnedBuffer<char> pinned(100);
  OR_EXPECT_ERROR(orErrorInvalidValue, orFree(&on_stack));
  OR_EXPECT_ERROR(orErrorInvalidValue, orFree(on_heap.data()));
  OR_EXPECT_ERROR(orErrorInvalidValue, orFree(pinned.get()));
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orFree(reinterpret_cast<void*>(UINTPTR_MAX)));
}

TEST_F(MemoryTest, MemoryOfAnotherDeviceCanBeFreed) {
  const size_t before = counters().liveAllocations;
  char* ptr = device_malloc(100);
  EXPECT_EQ(counters().liveAllocations, before + 1);
  const OnDevice one(1);
  OR_EXPECT_OK(orFree(ptr));
  EXPECT_EQ(counters().liveAllocations, before);
}

TEST_F(MemoryTest, FreeWaitsForTheWorkThatUsesTheMemory) {
  const Stream stream;
  PinnedBuffer<char> result(100);
  char* memory = device_malloc(100);
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(
      launch(builtin("fill"), orTestingFillArgs{memory, 100, 42}, stream));
  OR_EXPECT_OK(
      orMemcpyAsync(result.get(), memory, 100, orMemcpyDefault, stream));
  Background free([memory] { OR_EXPECT_OK(orFree(memory)); });
  free.settle();
  EXPECT_FALSE(free.done());
  gate.open();
  free.join();
  EXPECT_EQ(std::count(result.get(), result.get() + 100, 42), 100);
}

TEST_F(MemoryTest, FreeWaitsForACopyOfAnotherDevice) {
  PinnedBuffer<char> result(100);
  const DeviceBuffer<char> here(100);
  char* there = nullptr;
  {
    const OnDevice one(1);
    there = device_malloc(100);
    OR_EXPECT_OK(orMemset(there, 9, 100));
    OR_EXPECT_OK(orDeviceSynchronize());
  }
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orMemcpyPeerAsync(here.get(), 0, there, 1, 100, stream));
  OR_EXPECT_OK(
      orMemcpyAsync(result.get(), here.get(), 100, orMemcpyDefault, stream));
  Background free([there] { OR_EXPECT_OK(orFree(there)); });
  free.settle();
  EXPECT_FALSE(free.done());
  gate.open();
  free.join();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(std::count(result.get(), result.get() + 100, 9), 100);
}

TEST_F(MemoryTest, FreeDoesNotWaitForTheWorkOfOtherDevices) {
  char* memory = device_malloc(100);
  const OnDevice one(1);
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orFree(memory));
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
}

TEST_F(MemoryTest, MallocDoesNotWaitForWork) {
  const Stream stream;
  Gate gate;
  gate.hold(stream);
  char* memory = device_malloc(kMiB);
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  gate.open();
  OR_EXPECT_OK(orFree(memory));
}

TEST_F(MemoryTest, MemoryThatWasFreedIsUsedAgainWithoutSystemCalls) {
  const auto allocate_use_and_free = [] {
    std::vector<char*> blocks;
    for (const size_t size : {size_t{512}, 5 * kKiB, kMiB, 8 * kMiB}) {
      blocks.push_back(device_malloc(size));
      OR_EXPECT_OK(orMemset(blocks.back(), 1, size));
    }
    for (char* block : blocks) OR_EXPECT_OK(orFree(block));
  };
  allocate_use_and_free();
  const uint64_t before = counters().systemCalls;
  for (int round = 0; round < 100; ++round) allocate_use_and_free();
  EXPECT_EQ(counters().systemCalls, before);
}

// A block of a random size that is filled with a byte of its own.
struct FilledBlock {
  size_t size;
  char value;
};

// Checks every byte of a block and frees it.
void check_and_free(char* ptr, const FilledBlock& block) {
  std::vector<char> bytes(block.size);
  OR_EXPECT_OK(orMemcpy(bytes.data(), ptr, block.size, orMemcpyDeviceToHost));
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), block.value),
            static_cast<ptrdiff_t>(block.size));
  OR_EXPECT_OK(orFree(ptr));
}

// Allocates and frees at random; no block overlaps another or loses a byte.
void allocate_at_random(unsigned seed, int steps) {
  std::mt19937 random(seed);
  std::map<char*, FilledBlock> live;
  for (int step = 0; step < steps; ++step) {
    if (live.size() > 40 || (!live.empty() && random() % 3 == 0)) {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      check_and_free(victim->first, victim->second);
      live.erase(victim);
      continue;
    }
    const FilledBlock block{1 + random() % (size_t{1} << (random() % 18)),
                            static_cast<char>(random())};
    char* ptr = device_malloc(block.size);
    ASSERT_NE(ptr, nullptr);
    const auto above = live.lower_bound(ptr);
    if (above != live.end()) {
      ASSERT_LE(ptr + block.size, above->first);
    }
    if (above != live.begin()) {
      const auto below = std::prev(above);
      ASSERT_LE(below->first + below->second.size, ptr);
    }
    OR_EXPECT_OK(orMemset(ptr, block.value, block.size));
    live.emplace(ptr, block);
  }
  for (const auto& [ptr, block] : live) check_and_free(ptr, block);
}

TEST_F(MemoryTest, RandomAllocationsNeverOverlap) {
  const size_t before = free_bytes();
  allocate_at_random(1, 1000 * stress_scale());
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(MemoryTest, ThreadsAllocateSideBySide) {
  const size_t before = free_bytes();
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back(
        [seed] { allocate_at_random(seed, 250 * stress_scale()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(free_bytes(), before);
}

OPENREG_CHILD(fill_and_merge) {
  std::mt19937 random(7);
  size_t total = 0;
  CHILD_CHECK(orMemGetInfo(nullptr, &total) == orSuccess);
  for (const size_t size : {size_t{512}, 64 * kKiB, 96 * kKiB}) {
    std::vector<void*> blocks;
    void* ptr = nullptr;
    orError_t code = orSuccess;
    while ((code = orMalloc(&ptr, size)) == orSuccess) blocks.push_back(ptr);
    CHILD_CHECK(code == orErrorOutOfMemory);
    CHILD_CHECK(blocks.size() == total / size);
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (void* block : blocks) CHILD_CHECK(orFree(block) == orSuccess);
    CHILD_CHECK(orMalloc(&ptr, total) == orSuccess);
    CHILD_CHECK(orFree(ptr) == orSuccess);
  }
  return 0;
}

TEST_F(MemoryTest, FreedNeighboursBecomeOnePieceAgain) {
  expect_child_passes("fill_and_merge", {{"OPENREG_MEMORY", "8MiB"}});
}

// A sanitizer's shadow memory would be counted as resident too.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
OPENREG_CHILD(give_memory_back) {
  const size_t before = resident_bytes();
  char* ptr = device_malloc(448 * kMiB);
  CHILD_CHECK(orMemset(ptr, 1, 448 * kMiB) == orSuccess);
  CHILD_CHECK(orDeviceSynchronize() == orSuccess);
  CHILD_CHECK(resident_bytes() > before + 440 * kMiB);
  CHILD_CHECK(orFree(ptr) == orSuccess);
  // A device in another process does it in its own time.
  CHILD_CHECK(eventually(
      [&] { return resident_bytes() < before + 272 * kMiB; }));
  return 0;
}

TEST_F(MemoryTest, MuchFreedMemoryGoesBackToTheSystem) {
  expect_child_passes("give_memory_back", {{"OPENREG_MEMORY", "512MiB"}});
}
#endif

}  // namespace
}  // namespace openreg::test
