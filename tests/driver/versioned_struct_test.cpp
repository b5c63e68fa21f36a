// Structs that grow: callers that were built against another version of the
// headers than the driver was.
#include "api/versioned_struct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "support/work.h"

namespace openreg::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Three versions of a struct. The driver of these tests knows the second.
struct First {
  size_t structSize;
  size_t a;
};
struct Second {
  size_t structSize;
  size_t a;
  size_t b;
};
struct Third {
  size_t structSize;
  size_t a;
  size_t b;
  size_t c;
};

// What a driver does that gets a pointer to any version.
template <typename Given>
Status read(const Given& given, Second* known) {
  return api::read_struct(reinterpret_cast<const Second*>(&given), "given",
                          sizeof(First), known);
}

template <typename Wanted>
Status write(const Second& known, Wanted* wanted) {
  auto* const pointer = reinterpret_cast<Second*>(wanted);
  OPENREG_RETURN_IF_ERROR(api::check_struct(pointer, "wanted", sizeof(First)));
  api::write_struct(known, pointer);
  return {};
}

class VersionedStructTest : public DriverTest {};

TEST_F(VersionedStructTest, FieldsThatAnOlderCallerDoesNotHaveAreZero) {
  const First given{sizeof(First), 3};
  Second known{0, 7, 7};
  ASSERT_TRUE(read(given, &known).ok());
  EXPECT_EQ(known.a, 3u);
  EXPECT_EQ(known.b, 0u);
}

TEST_F(VersionedStructTest, ACallerOfTheSameVersionIsReadWhole) {
  const Second given{sizeof(Second), 3, 4};
  Second known{};
  ASSERT_TRUE(read(given, &known).ok());
  EXPECT_EQ(known.a, 3u);
  EXPECT_EQ(known.b, 4u);
}

TEST_F(VersionedStructTest, SizesThatCannotBeReadAreRefusedWithTheKnownOnes) {
  for (const size_t size : {size_t{0}, sizeof(First) - 1, sizeof(Third)}) {
    const Third given{size, 1, 2, 3};
    Second known{0, 7, 7};
    const Status status = read(given, &known);
    EXPECT_EQ(status.code(), orErrorInvalidValue);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("structSize=" + std::to_string(size)),
                      HasSubstr("16 to 24")));
    EXPECT_EQ(known.b, 7u);
  }
}

TEST_F(VersionedStructTest, AnOlderCallerIsFilledNoFurtherThanItsStructGoes) {
  struct {
    First wanted{sizeof(First), 0};
    size_t behind = 7;
  } caller;
  ASSERT_TRUE(write({0, 3, 4}, &caller.wanted).ok());
  EXPECT_EQ(caller.wanted.structSize, sizeof(First));
  EXPECT_EQ(caller.wanted.a, 3u);
  EXPECT_EQ(caller.behind, 7u);
}

TEST_F(VersionedStructTest, ANewerCallerIsToldHowMuchWasFilled) {
  Third wanted{sizeof(Third), 0, 0, 7};
  ASSERT_TRUE(write({0, 3, 4}, &wanted).ok());
  EXPECT_EQ(wanted.structSize, sizeof(Second));
  EXPECT_EQ(wanted.a, 3u);
  EXPECT_EQ(wanted.b, 4u);
  EXPECT_EQ(wanted.c, 7u);
}

TEST_F(VersionedStructTest, AStructBelowTheFirstVersionIsNotFilled) {
  First wanted{sizeof(First) - 1, 7};
  const Status status = write({0, 3, 4}, &wanted);
  EXPECT_EQ(status.code(), orErrorInvalidValue);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("structSize=15"), HasSubstr("at least 16")));
  EXPECT_EQ(wanted.a, 7u);
}

TEST_F(VersionedStructTest, LaunchConfigsOfALaterVersionAreRefused) {
  struct {
    orLaunchConfig_t known{sizeof(orLaunchConfig_t) + 8, nullptr, 0};
    size_t more = 0;
  } config;
  OR_EXPECT_ERROR_SAYS(
      orErrorInvalidValue, "structSize=32: this driver knows 24 to 24",
      orLaunchKernelEx(&config.known, builtin("empty"), nullptr, 0));
}

TEST_F(VersionedStructTest, ProcessInfosOfALaterVersionAreFilledAsFarAsKnown) {
  struct {
    orDeviceProcessInfo known;
    std::array<unsigned char, 64> more;
  } info;
  std::memset(&info, 0xa5, sizeof info);
  info.known.structSize = sizeof info;
  OR_ASSERT_OK(orDeviceGetProcessInfo(&info.known, 0));
  EXPECT_EQ(info.known.structSize, sizeof(orDeviceProcessInfo));
  EXPECT_STREQ(info.known.driver, std::getenv("OPENREG_DRIVER"));
  EXPECT_THAT(info.more, Each(0xa5));
}

TEST_F(VersionedStructTest, ProcessInfosBelowTheFirstVersionAreRefused) {
  orDeviceProcessInfo info{};
  info.structSize = 96;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue,
                       "structSize=96: this driver needs at least 104",
                       orDeviceGetProcessInfo(&info, 0));
}

}  // namespace
}  // namespace openreg::test
