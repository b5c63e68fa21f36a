// Copies and memset: which bytes arrive, and which arguments are refused. When
// the calls return and in which order they run is in copy_order_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/work.h"

namespace openreg::test {
namespace {

using CopyTest = DriverTest;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

using Bytes = std::vector<char>;

// Host memory, pageable or pinned by the scope.
class HostBytes {
 public:
  HostBytes(size_t count, bool pinned) : bytes_(count), pinned_(pinned) {
    if (pinned_) OR_EXPECT_OK(orHostRegister(get(), count, 0));
  }
  ~HostBytes() {
    if (pinned_) OR_EXPECT_OK(orHostUnregister(get()));
  }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  char* get() { return bytes_.data(); }
  // Keeps the address, which is what was pinned.
  void assign(const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  bool pinned_;
};

struct Trip {
  size_t size;
  bool pinned;
  bool named_kinds;  // else orMemcpyDefault
};

class CopyTripTest : public DriverTest,
                     public ::testing::WithParamInterface<Trip> {
 protected:
  static orMemcpyKind kind(orMemcpyKind named) {
    return GetParam().named_kinds ? named : orMemcpyDefault;
  }
};

TEST_P(CopyTripTest, BytesSurviveEveryDirection) {
  const auto [size, pinned, named_kinds] = GetParam();
  HostBytes source(size, pinned);
  HostBytes between(size, pinned);
  HostBytes target(size, pinned);
  source.assign(pattern(size));
  const DeviceBuffer<char> first(size);
  const DeviceBuffer<char> second(size);
  OR_EXPECT_OK(
      orMemcpy(between.get(), source.get(), size, kind(orMemcpyHostToHost)));
  OR_EXPECT_OK(
      orMemcpy(first.get(), between.get(), size, kind(orMemcpyHostToDevice)));
  OR_EXPECT_OK(
      orMemcpy(second.get(), first.get(), size, kind(orMemcpyDeviceToDevice)));
  OR_EXPECT_OK(
      orMemcpy(target.get(), second.get(), size, kind(orMemcpyDeviceToHost)));
  EXPECT_EQ(target.bytes(), source.bytes());
}

TEST_P(CopyTripTest, BytesSurviveEveryDirectionOnAStream) {
  const auto [size, pinned, named_kinds] = GetParam();
  const Stream stream;
  HostBytes source(size, pinned);
  HostBytes between(size, pinned);
  HostBytes target(size, pinned);
  source.assign(pattern(size));
  const DeviceBuffer<char> first(size);
  const DeviceBuffer<char> second(size);
  OR_EXPECT_OK(orMemcpyAsync(between.get(), source.get(), size,
                             kind(orMemcpyHostToHost), stream));
  OR_EXPECT_OK(orMemcpyAsync(first.get(), between.get(), size,
                             kind(orMemcpyHostToDevice), stream));
  OR_EXPECT_OK(orMemcpyAsync(second.get(), first.get(), size,
                             kind(orMemcpyDeviceToDevice), stream));
  OR_EXPECT_OK(orMemcpyAsync(target.get(), second.get(), size,
                             kind(orMemcpyDeviceToHost), stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(target.bytes(), source.bytes());
}

std::vector<Trip> all_trips() {
  std::vector<Trip> trips;
  for (const size_t size : {size_t{1}, size_t{511}, size_t{4097}, 64 * kKiB,
                            64 * kKiB + 1, 3 * kMiB + 7}) {
    for (const bool pinned : {false, true}) {
      for (const bool named : {false, true}) {
        trips.push_back({size, pinned, named});
      }
    }
  }
  return trips;
}

INSTANTIATE_TEST_SUITE_P(Sizes, CopyTripTest, ::testing::ValuesIn(all_trips()),
                         [](const auto& trip) {
                           return std::to_string(trip.param.size) +
                                  (trip.param.pinned ? "Pinned" : "Pageable") +
                                  (trip.param.named_kinds ? "Named"
                                                          : "Default");
                         });

TEST_F(CopyTest, LargeCopiesAreExact) {
  constexpr size_t kSize = 64 * kMiB;
  const Bytes source = pattern(kSize);
  Bytes target(kSize);
  const DeviceBuffer<char> first(kSize);
  const DeviceBuffer<char> second(kSize);
  OR_EXPECT_OK(
      orMemcpy(first.get(), source.data(), kSize, orMemcpyHostToDevice));
  OR_EXPECT_OK(
      orMemcpy(second.get(), first.get(), kSize, orMemcpyDeviceToDevice));
  OR_EXPECT_OK(
      orMemcpy(target.data(), second.get(), kSize, orMemcpyDeviceToHost));
  EXPECT_TRUE(source == target);
}

// More of them than there is memory to stage copies in, if each kept its own.
constexpr size_t kManyStreams = 40;
constexpr size_t kStagedSize = 2 * kMiB;

TEST_F(CopyTest, ManyStreamsCopyPageableMemory) {
  const Bytes source = pattern(kStagedSize);
  const DeviceBuffer<char> memory(kStagedSize);
  const std::vector<Stream> streams(kManyStreams);
  for (const Stream& stream : streams) {
    Bytes target(kStagedSize);
    OR_EXPECT_OK(orMemcpyAsync(memory.get(), source.data(), kStagedSize,
                               orMemcpyDefault, stream));
    OR_EXPECT_OK(orMemcpyAsync(target.data(), memory.get(), kStagedSize,
                               orMemcpyDefault, stream));
    OR_EXPECT_OK(orStreamSynchronize(stream));
    ASSERT_TRUE(target == source);
  }
}

TEST_F(CopyTest, ManyStreamsCopyToAnotherDevice) {
  const Bytes source = pattern(kStagedSize);
  const DeviceBuffer<char> here(kStagedSize);
  OR_EXPECT_OK(
      orMemcpy(here.get(), source.data(), kStagedSize, orMemcpyDefault));
  const std::vector<Stream> streams(kManyStreams);
  const OnDevice other(1);
  const DeviceBuffer<char> there(kStagedSize);
  for (const Stream& stream : streams) {
    Bytes target(kStagedSize);
    OR_EXPECT_OK(orMemset(there.get(), 0, kStagedSize));
    OR_EXPECT_OK(orDeviceSynchronize());
    OR_EXPECT_OK(
        orMemcpyPeerAsync(there.get(), 1, here.get(), 0, kStagedSize, stream));
    OR_EXPECT_OK(orStreamSynchronize(stream));
    OR_EXPECT_OK(
        orMemcpy(target.data(), there.get(), kStagedSize, orMemcpyDefault));
    ASSERT_TRUE(target == source);
  }
}

TEST_F(CopyTest, APartIsCopiedAndTheRestStays) {
  const Bytes source = pattern(100);
  DeviceBuffer<char> device(100);
  device.set(Bytes(100, 0));
  OR_EXPECT_OK(orMemcpy(device.get() + 10, source.data() + 20, 30,
                        orMemcpyHostToDevice));
  Bytes expected(100, 0);
  std::copy_n(source.begin() + 20, 30, expected.begin() + 10);
  EXPECT_EQ(device.values(), expected);
}

TEST_F(CopyTest, OverlappingRangesAreMovedInBothDirections) {
  for (const size_t size : {size_t{1000}, 2 * kMiB}) {
    for (const bool upwards : {true, false}) {
      Bytes expected = pattern(size);
      DeviceBuffer<char> device(size);
      device.set(expected);
      const size_t to = upwards ? 100 : 0;
      const size_t from = upwards ? 0 : 100;
      std::memmove(&expected[to], &expected[from], size - 100);
      OR_EXPECT_OK(orMemcpy(device.get() + to, device.get() + from, size - 100,
                            orMemcpyDeviceToDevice));
      EXPECT_EQ(device.values(), expected);
    }
  }
}

TEST_F(CopyTest, NothingIsCopiedForACountOfZero) {
  const DeviceBuffer<char> device(100);
  char byte = 7;
  OR_EXPECT_OK(orMemcpy(nullptr, nullptr, 0, orMemcpyDefault));
  OR_EXPECT_OK(orMemcpy(nullptr, nullptr, 0, orMemcpyHostToDevice));
  OR_EXPECT_OK(orMemcpy(&byte, device.get() + 100, 0, orMemcpyDeviceToHost));
  OR_EXPECT_OK(
      orMemcpyAsync(device.get() + 100, &byte, 0, orMemcpyDefault, nullptr));
  OR_EXPECT_OK(orMemset(nullptr, 1, 0));
  OR_EXPECT_OK(orMemsetAsync(device.get() + 100, 1, 0, nullptr));
  EXPECT_EQ(byte, 7);
}

TEST_F(CopyTest, NullPointersAreRefused) {
  const DeviceBuffer<char> device(1);
  char byte = 0;
  for (const orMemcpyKind kind : {orMemcpyDefault, orMemcpyHostToDevice}) {
    OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "src",
                         orMemcpy(device.get(), nullptr, 1, kind));
  }
  for (const orMemcpyKind kind : {orMemcpyDefault, orMemcpyDeviceToHost}) {
    OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "dst",
                         orMemcpy(nullptr, device.get(), 1, kind));
  }
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orMemcpy(nullptr, &byte, 1, orMemcpyHostToHost));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "ptr", orMemset(nullptr, 0, 1));
}

TEST_F(CopyTest, AKindThatContradictsAPointerIsRefused) {
  const DeviceBuffer<char> buffer(2);
  char* const device = buffer.get();
  char bytes[2] = {};
  char* const host = bytes;
  const struct {
    char* dst;
    char* src;
    orMemcpyKind kind;
  } cases[] = {
      {device, host, orMemcpyHostToHost},
      {host, device, orMemcpyHostToHost},
      {device, device + 1, orMemcpyHostToHost},
      {host, host + 1, orMemcpyHostToDevice},
      {device, device + 1, orMemcpyHostToDevice},
      {host, device, orMemcpyHostToDevice},
      {host, host + 1, orMemcpyDeviceToHost},
      {device, device + 1, orMemcpyDeviceToHost},
      {device, host, orMemcpyDeviceToHost},
      {host, device, orMemcpyDeviceToDevice},
      {device, host, orMemcpyDeviceToDevice},
      {host, host + 1, orMemcpyDeviceToDevice},
  };
  for (const auto& [dst, src, kind] : cases) {
    OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "kind",
                         orMemcpy(dst, src, 1, kind));
    OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "kind",
                         orMemcpyAsync(dst, src, 1, kind, nullptr));
  }
}

TEST_F(CopyTest, AnUnknownKindIsRefused) {
  char bytes[2] = {};
  OR_EXPECT_ERROR_SAYS(
      orErrorInvalidValue, "kind",
      orMemcpy(&bytes[0], &bytes[1], 1, static_cast<orMemcpyKind>(5)));
}

TEST_F(CopyTest, ACopyThatLeavesItsAllocationIsRefused) {
  const DeviceBuffer<char> device(100);
  Bytes host(4096);
  for (const auto& [offset, count] :
       {std::pair<size_t, size_t>{0, 101}, {100, 1}, {99, 2}, {50, 4000}}) {
    OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "src",
                         orMemcpy(host.data(), device.get() + offset, count,
                                  orMemcpyDeviceToHost));
    OR_EXPECT_ERROR_SAYS(
        orErrorInvalidValue, "dst",
        orMemcpy(device.get() + offset, host.data(), count, orMemcpyDefault));
    OR_EXPECT_ERROR(orErrorInvalidValue,
                    orMemset(device.get() + offset, 0, count));
  }
}

TEST_F(CopyTest, ACopyAcrossNeighbouringAllocationsIsRefused) {
  const DeviceBuffer<char> first(512);
  const DeviceBuffer<char> second(512);
  char* const lower = std::min(first.get(), second.get());
  Bytes host(1024);
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orMemcpy(host.data(), lower, 1024, orMemcpyDeviceToHost));
}

TEST_F(CopyTest, FreedMemoryIsRefused) {
  char* const ptr = device_malloc(100);
  OR_ASSERT_OK(orFree(ptr));
  char byte = 0;
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orMemcpy(&byte, ptr, 1, orMemcpyDefault));
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orMemcpy(ptr, &byte, 1, orMemcpyHostToDevice));
  OR_EXPECT_ERROR(orErrorInvalidValue, orMemset(ptr, 0, 1));
}

TEST_F(CopyTest, APointerPlusCountThatOverflowsIsRefused) {
  const DeviceBuffer<char> device(100);
  char byte = 0;
  char* const last = reinterpret_cast<char*>(UINTPTR_MAX - 9);
  for (const orMemcpyKind kind : {orMemcpyHostToDevice, orMemcpyDefault}) {
    OR_EXPECT_ERROR(orErrorInvalidValue,
                    orMemcpy(device.get(), last, 100, kind));
    OR_EXPECT_ERROR(orErrorInvalidValue,
                    orMemcpy(device.get(), &byte, SIZE_MAX, kind));
  }
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orMemcpy(&byte, &byte, SIZE_MAX, orMemcpyHostToHost));
  OR_EXPECT_ERROR(orErrorInvalidValue, orMemset(device.get(), 0, SIZE_MAX));
}

TEST_F(CopyTest, ARangeThatIsPartlyPinnedIsRefused) {
  Bytes host(300);
  char* const start = host.data();
  DeviceBuffer<char> device(300);
  device.set(Bytes(300, 1));
  OR_ASSERT_OK(orHostRegister(start + 100, 100, 0));
  for (const auto& [offset, count] :
       {std::pair<size_t, size_t>{0, 101}, {150, 100}, {0, 300}, {199, 2}}) {
    OR_EXPECT_ERROR(orErrorInvalidValue, orMemcpy(device.get(), start + offset,
                                                  count, orMemcpyHostToDevice));
    OR_EXPECT_ERROR(orErrorInvalidValue, orMemcpy(start + offset, device.get(),
                                                  count, orMemcpyDefault));
  }
  EXPECT_EQ(host, Bytes(300, 0));
  for (const size_t offset : {0, 100, 200}) {
    OR_EXPECT_OK(orMemcpy(start + offset, device.get(), 100, orMemcpyDefault));
  }
  EXPECT_EQ(host, Bytes(300, 1));
  OR_EXPECT_OK(orHostUnregister(start + 100));
}

TEST_F(CopyTest, AStreamThatNeverWasIsRefused) {
  const DeviceBuffer<char> device(1);
  const auto stream = garbage_handle<orStream_t>();
  char byte = 0;
  OR_EXPECT_ERROR_SAYS(
      orErrorInvalidHandle, "stream",
      orMemcpyAsync(device.get(), &byte, 1, orMemcpyDefault, stream));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "stream",
                       orMemsetAsync(device.get(), 0, 1, stream));
  OR_EXPECT_ERROR_SAYS(
      orErrorInvalidHandle, "stream",
      orMemcpyPeerAsync(device.get(), 0, device.get(), 0, 1, stream));
}

TEST_F(CopyTest, MemsetWritesTheLowByte) {
  DeviceBuffer<unsigned char> device(100);
  OR_EXPECT_OK(orMemset(device.get(), 0, 100));
  OR_EXPECT_OK(orMemset(device.get() + 10, 0x1ff, 20));
  OR_EXPECT_OK(orMemsetAsync(device.get() + 30, -2, 20, nullptr));
  std::vector<unsigned char> expected(100, 0);
  std::fill_n(expected.begin() + 10, 20, 0xff);
  std::fill_n(expected.begin() + 30, 20, 0xfe);
  EXPECT_EQ(device.values(), expected);
}

TEST_F(CopyTest, MemsetWritesPinnedMemory) {
  PinnedBuffer<char> pinned(100);
  OR_EXPECT_OK(orMemset(pinned.get(), 5, 100));
  EXPECT_EQ(std::count(pinned.get(), pinned.get() + 100, 5), 100);
}

TEST_F(CopyTest, MemsetRefusesPageableMemory) {
  Bytes host(100, 1);
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "ptr",
                       orMemset(host.data(), 0, 100));
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orMemsetAsync(host.data(), 0, 100, nullptr));
  EXPECT_EQ(host, Bytes(100, 1));
}

}  // namespace
}  // namespace openreg::test
