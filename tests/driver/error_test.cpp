// Error codes, and the last error of a thread. What each function refuses is
// tested with the function.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include "support/support.h"

namespace openreg::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ErrorTest = DriverTest;

struct NamedCode {
  orError_t code;
  const char* name;
};

constexpr NamedCode kCodes[] = {
    {orSuccess, "orSuccess"},
    {orErrorInvalidValue, "orErrorInvalidValue"},
    {orErrorInvalidDevice, "orErrorInvalidDevice"},
    {orErrorInvalidHandle, "orErrorInvalidHandle"},
    {orErrorOutOfMemory, "orErrorOutOfMemory"},
    {orErrorNotReady, "orErrorNotReady"},
    {orErrorNotSupported, "orErrorNotSupported"},
    {orErrorIllegalAddress, "orErrorIllegalAddress"},
    {orErrorLaunchFailure, "orErrorLaunchFailure"},
    {orErrorDeviceLost, "orErrorDeviceLost"},
    {orErrorNotInitialized, "orErrorNotInitialized"},
    {orErrorInternal, "orErrorInternal"},
    {orErrorAssert, "orErrorAssert"},
};

constexpr int kUnknownCodes[] = {-1, 13, 15, 1000, INT32_MAX, INT32_MIN};

// Makes the calling thread's last error orErrorInvalidDevice.
void fail_with_invalid_device() {
  OR_EXPECT_ERROR(orErrorInvalidDevice, orSetDevice(-1));
}

TEST_F(ErrorTest, EveryCodeHasItsName) {
  for (const auto& [code, name] : kCodes) {
    EXPECT_STREQ(orGetErrorName(code), name);
  }
}

TEST_F(ErrorTest, EveryCodeHasADescriptionOfItsOwn) {
  std::set<std::string> descriptions;
  for (const auto& [code, name] : kCodes) {
    const std::string description = orGetErrorString(code);
    EXPECT_GT(description.size(), 3u) << name;
    EXPECT_NE(description, "unrecognized error code") << name;
    EXPECT_NE(description, name);
    descriptions.insert(description);
  }
  EXPECT_EQ(descriptions.size(), std::size(kCodes));
}

TEST_F(ErrorTest, UnknownCodesAreCalledUnrecognized) {
  for (const int value : kUnknownCodes) {
    const auto code = std::bit_cast<orError_t>(value);
    EXPECT_STREQ(orGetErrorName(code), "unrecognized error code") << value;
    EXPECT_STREQ(orGetErrorString(code), "unrecognized error code") << value;
  }
}

TEST_F(ErrorTest, GetLastErrorReturnsTheFailureOnce) {
  fail_with_invalid_device();
  EXPECT_EQ(orGetLastError(), orErrorInvalidDevice);
  EXPECT_EQ(orGetLastError(), orSuccess);
}

TEST_F(ErrorTest, PeekAtLastErrorKeepsTheFailure) {
  fail_with_invalid_device();
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_EQ(orGetLastError(), orErrorInvalidDevice);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

TEST_F(ErrorTest, SuccessDoesNotClearTheLastError) {
  fail_with_invalid_device();
  int device = -1;
  OR_EXPECT_OK(orGetDevice(&device));
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_THAT(orGetLastErrorMessage(), StartsWith("orSetDevice"));
}

TEST_F(ErrorTest, ALaterFailureReplacesTheLastError) {
  fail_with_invalid_device();
  OR_EXPECT_ERROR(orErrorInvalidValue, orGetDevice(nullptr));
  EXPECT_EQ(orGetLastError(), orErrorInvalidValue);
  EXPECT_THAT(orGetLastErrorMessage(), StartsWith("orGetDevice"));
}

TEST_F(ErrorTest, GetLastErrorKeepsTheMessage) {
  fail_with_invalid_device();
  const std::string message = orGetLastErrorMessage();
  EXPECT_EQ(orGetLastError(), orErrorInvalidDevice);
  EXPECT_EQ(orGetLastErrorMessage(), message);
}

TEST_F(ErrorTest, ANewThreadHasNoErrorAndNoMessage) {
  fail_with_invalid_device();
  std::thread([] {
    EXPECT_EQ(orPeekAtLastError(), orSuccess);
    EXPECT_STREQ(orGetLastErrorMessage(), "");
  }).join();
}

TEST_F(ErrorTest, AFailureIsNotSeenByOtherThreads) {
  fail_with_invalid_device();
  const std::string message = orGetLastErrorMessage();
  std::thread([] {
    OR_EXPECT_ERROR(orErrorInvalidValue, orMalloc(nullptr, 1));
    EXPECT_EQ(orPeekAtLastError(), orErrorInvalidValue);
  }).join();
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_EQ(orGetLastErrorMessage(), message);
}

TEST_F(ErrorTest, TheErrorFunctionsChangeNothing) {
  fail_with_invalid_device();
  const std::string message = orGetLastErrorMessage();
  EXPECT_STREQ(orGetErrorName(std::bit_cast<orError_t>(1000)),
               "unrecognized error code");
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_EQ(orGetLastErrorMessage(), message);
}

// The message of a failed call begins with the function and names the argument
// and its value.
#define EXPECT_MESSAGE(code, call, function, argument, value)        \
  do {                                                               \
    OR_EXPECT_ERROR(code, call);                                     \
    EXPECT_THAT(orGetLastErrorMessage(), StartsWith(function ": ")); \
    EXPECT_THAT(orGetLastErrorMessage(), HasSubstr(argument));       \
    EXPECT_THAT(orGetLastErrorMessage(), HasSubstr(value));          \
  } while (false)

TEST_F(ErrorTest, MessagesNameADevice) {
  EXPECT_MESSAGE(orErrorInvalidDevice, orSetDevice(99), "orSetDevice", "device",
                 "99");
  orDeviceProp properties;
  EXPECT_MESSAGE(orErrorInvalidDevice, orGetDeviceProperties(&properties, -7),
                 "orGetDeviceProperties", "device", "-7");
  int can_access = 0;
  EXPECT_MESSAGE(orErrorInvalidDevice,
                 orDeviceCanAccessPeer(&can_access, 0, 77),
                 "orDeviceCanAccessPeer", "peerDevice", "77");
}

TEST_F(ErrorTest, MessagesNameANullPointer) {
  EXPECT_MESSAGE(orErrorInvalidValue, orMalloc(nullptr, 1), "orMalloc", "ptr",
                 "null");
  EXPECT_MESSAGE(orErrorInvalidValue, orGetDeviceCount(nullptr),
                 "orGetDeviceCount", "count", "null");
  EXPECT_MESSAGE(orErrorInvalidValue, orStreamCreate(nullptr), "orStreamCreate",
                 "stream", "null");
  EXPECT_MESSAGE(orErrorInvalidValue, orEventCreate(nullptr), "orEventCreate",
                 "event", "null");
}

TEST_F(ErrorTest, MessagesNameASize) {
  void* ptr = nullptr;
  EXPECT_MESSAGE(orErrorInvalidValue, orMalloc(&ptr, SIZE_MAX), "orMalloc",
                 "size", std::to_string(SIZE_MAX));
  // Nothing is wrong with this size but that it is not there.
  EXPECT_MESSAGE(orErrorOutOfMemory, orMalloc(&ptr, size_t{1} << 60),
                 "orMalloc", "memory", std::to_string(size_t{1} << 60));
}

TEST_F(ErrorTest, MessagesNameAKind) {
  char bytes[2] = {};
  EXPECT_MESSAGE(
      orErrorInvalidValue,
      orMemcpy(&bytes[0], &bytes[1], 1, static_cast<orMemcpyKind>(5)),
      "orMemcpy", "kind", "5");
}

TEST_F(ErrorTest, MessagesNameFlags) {
  orStream_t stream = nullptr;
  EXPECT_MESSAGE(orErrorInvalidValue, orStreamCreateWithFlags(&stream, 0x8),
                 "orStreamCreateWithFlags", "flags", "8");
  char byte = 0;
  EXPECT_MESSAGE(orErrorInvalidValue, orHostRegister(&byte, 1, 4),
                 "orHostRegister", "flags", "4");
}

TEST_F(ErrorTest, MessagesNameAHandle) {
  const auto garbage = reinterpret_cast<orStream_t>(uintptr_t{0x1234567});
  EXPECT_MESSAGE(orErrorInvalidHandle, orStreamQuery(garbage), "orStreamQuery",
                 "stream", "1234567");
}

TEST_F(ErrorTest, AFailedCallLeavesItsOutputsAlone) {
  int count = 0;
  OR_ASSERT_OK(orGetDeviceCount(&count));
  orDeviceProp properties{};
  properties.major = 1234;
  OR_EXPECT_ERROR(orErrorInvalidDevice,
                  orGetDeviceProperties(&properties, count));
  EXPECT_EQ(properties.major, 1234);
  int can_access = 1234;
  OR_EXPECT_ERROR(orErrorInvalidDevice,
                  orDeviceCanAccessPeer(&can_access, 0, count));
  EXPECT_EQ(can_access, 1234);
}

}  // namespace
}  // namespace openreg::test
