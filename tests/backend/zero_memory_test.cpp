// Memory for stand-ins: zeros, and room around it that kernels may read.
#include "backend/simulation/host/zero_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace torch_openreg {

namespace {

constexpr size_t kRoom = ZeroMemory::kRoom;

// A page each side of an arena's piece, larger than the arena, and odd sizes.
constexpr size_t kSizes[] = {1, 63, 4096, 100'000, 1 << 20, (1 << 20) + 1};

bool is_zero(const std::byte* begin, size_t bytes) {
  return std::all_of(begin, begin + bytes,
                     [](std::byte value) { return value == std::byte{0}; });
}

TEST(ZeroMemoryTest, IsZeroAndHasRoomOnBothSides) {
  for (const size_t bytes : kSizes) {
    ZeroMemory memory;
    const c10::DataPtr data = memory.allocate(bytes);
    const auto* const start = static_cast<const std::byte*>(data.get());
    EXPECT_TRUE(is_zero(start - kRoom, bytes + 2 * kRoom)) << bytes;
  }
}

TEST(ZeroMemoryTest, IsZeroAgainAfterItWasWritten) {
  for (int round = 0; round < 3; ++round) {
    ZeroMemory memory;
    for (const size_t bytes : kSizes) {
      const c10::DataPtr data = memory.allocate(bytes);
      EXPECT_TRUE(is_zero(static_cast<std::byte*>(data.get()), bytes));
      std::memset(data.get(), 0xff, bytes);
    }
  }
}

TEST(ZeroMemoryTest, PiecesAreApart) {
  ZeroMemory memory;
  std::vector<c10::DataPtr> pieces;
  for (int i = 0; i < 100; ++i) {
    pieces.push_back(memory.allocate(5000));
    std::memset(pieces.back().get(), i + 1, 5000);
  }
  for (int i = 0; i < 100; ++i) {
    const auto* const piece =
        static_cast<const unsigned char*>(pieces[i].get());
    EXPECT_EQ(piece[0], i + 1);
    EXPECT_EQ(piece[4999], i + 1);
  }
}

TEST(ZeroMemoryTest, OneInsideAnotherLeavesItAlone) {
  ZeroMemory outer;
  const c10::DataPtr data = outer.allocate(64);
  std::memset(data.get(), 1, 64);
  {
    ZeroMemory inner;
    std::memset(inner.allocate(64).get(), 2, 64);
  }
  EXPECT_EQ(static_cast<const char*>(data.get())[63], 1);
}

TEST(ZeroMemoryTest, EachThreadHasItsOwn) {
  ZeroMemory memory;
  const c10::DataPtr data = memory.allocate(64);
  std::memset(data.get(), 1, 64);
  std::thread([] {
    ZeroMemory other;
    const c10::DataPtr its = other.allocate(64);
    EXPECT_TRUE(is_zero(static_cast<std::byte*>(its.get()), 64));
    std::memset(its.get(), 2, 64);
  }).join();
  EXPECT_EQ(static_cast<const char*>(data.get())[0], 1);
}

TEST(ZeroMemoryTest, NoBytesAreNoMemory) {
  ZeroMemory memory;
  EXPECT_EQ(memory.allocate(0).get(), nullptr);
}

}  // namespace

}  // namespace torch_openreg
