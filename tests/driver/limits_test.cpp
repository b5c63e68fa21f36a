// A process whose address space is limited (ulimit -v): the driver offers a
// smaller device or says clearly why it cannot, and never brings the process
// down.
//
// A sanitizer reserves terabytes of address space for its shadow memory, so it
// cannot run under such a limit: these tests don't exist there.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/work.h"

namespace openreg::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

class LimitsTest : public ::testing::Test {};

size_t address_space_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

bool limit_address_space(size_t bytes) {
  const rlimit limit{bytes, bytes};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

// Whether a call failed for want of memory or address space, and said so.
bool is_clear_refusal(orError_t code) {
  return (code == orErrorOutOfMemory || code == orErrorNotInitialized) &&
         std::string(orGetLastErrorMessage()).size() > 10;
}

// Uses a device for a bit of everything. Prints "works" or "refused".
int use_device() {
  size_t total = 0;
  orError_t code = orMemGetInfo(nullptr, &total);
  if (code != orSuccess) {
    CHILD_CHECK(is_clear_refusal(code));
    std::printf("refused: %s\n", orGetLastErrorMessage());
    return 0;
  }
  std::printf("works with %zu bytes\n", total);
  constexpr size_t kSize = 100000;
  static char bytes[kSize];
  void* ptr = nullptr;
  code = orMalloc(&ptr, kSize);
  if (code != orSuccess) {
    CHILD_CHECK(is_clear_refusal(code));
    return 0;
  }
  // A worker that cannot start is a refusal, too.
  code = launch(builtin("fill"), orTestingFillArgs{ptr, kSize, 5}, nullptr);
  CHILD_CHECK(code == orSuccess || is_clear_refusal(code));
  if (code == orSuccess) {
    code = orMemcpy(bytes, ptr, kSize, orMemcpyDeviceToHost);
    CHILD_CHECK(code == orSuccess || is_clear_refusal(code));
    CHILD_CHECK(code != orSuccess || bytes[kSize - 1] == 5);
  }
  CHILD_CHECK(orFree(ptr) == orSuccess);
  return 0;
}

// LIMIT_MIB says how much more address space the child may use.
OPENREG_CHILD(use_device_under_limit) {
  const size_t more = std::strtoul(std::getenv("LIMIT_MIB"), nullptr, 10);
  CHILD_CHECK(limit_address_space(address_space_bytes() + more * kMiB));
  return use_device();
}

OPENREG_CHILD(use_device_under_absurd_limit) {
  CHILD_CHECK(limit_address_space(kMiB));
  return use_device();
}

ChildResult run_limited(const std::string& mib, const std::string& memory) {
  return run_child("use_device_under_limit",
                   {{"LIMIT_MIB", mib}, {"OPENREG_MEMORY", memory}});
}

TEST_F(LimitsTest, ADeviceIsMadeToFitTheLimit) {
  for (const char* mib : {"8192", "1024", "256"}) {
    const ChildResult child = run_limited(mib, "");
    EXPECT_EQ(child.exit_code, 0) << mib << " MiB: " << child.output;
    EXPECT_THAT(child.output, HasSubstr("works with")) << mib << " MiB";
  }
}

TEST_F(LimitsTest, ASmallDeviceFitsAnyLimitThatHasRoomForIt) {
  const ChildResult child = run_limited("256", "16MiB");
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_THAT(child.output, HasSubstr("works with 16777216 bytes"));
}

TEST_F(LimitsTest, ADeviceThatWasAskedForAndDoesNotFitIsRefusedOrSmaller) {
  const ChildResult child = run_limited("1024", "64GiB");
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_THAT(child.output,
              AnyOf(HasSubstr("refused: "), HasSubstr("works with")));
  EXPECT_EQ(child.output.find("works with 68719476736 "), std::string::npos);
}

TEST_F(LimitsTest, NoRoomAtAllIsNoCrash) {
  for (const char* mib : {"0", "1", "3", "6", "12", "24", "48"}) {
    const ChildResult child = run_limited(mib, "");
    EXPECT_EQ(child.exit_code, 0) << mib << " MiB: " << child.output;
    EXPECT_THAT(child.output,
                AnyOf(HasSubstr("refused: "), HasSubstr("works with")));
  }
}

TEST_F(LimitsTest, ALimitBelowWhatIsInUseIsNoCrash) {
  const ChildResult child =
      run_child("use_device_under_absurd_limit", {{"OPENREG_MEMORY", ""}});
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_THAT(child.output,
              AnyOf(HasSubstr("refused: "), HasSubstr("works with")));
}

size_t total_memory() {
  orDeviceProp prop{};
  OR_EXPECT_OK(orGetDeviceProperties(&prop, 0));
  return prop.totalGlobalMem;
}

OPENREG_CHILD(reset_under_limit) {
  CHILD_CHECK(limit_address_space(address_space_bytes() + 4096 * kMiB));
  const size_t before = total_memory();
  for (int life = 1; life <= 20; ++life) {
    CHILD_CHECK(orDeviceReset() == orSuccess);
    CHILD_CHECK(total_memory() == before);
  }
  return child_verdict();
}

TEST_F(LimitsTest, ADeviceKeepsItsSizeWhenItIsReset) {
  for (const char* memory : {"", "512MiB", "64GiB"}) {
    const ChildResult child =
        run_child("reset_under_limit", {{"OPENREG_MEMORY", memory}});
    EXPECT_EQ(child.exit_code, 0) << memory << "\n" << child.output;
  }
}

OPENREG_CHILD(pin_under_limit) {
  CHILD_CHECK(limit_address_space(address_space_bytes() + 512 * kMiB));
  void* ptr = &ptr;
  CHILD_CHECK(orMallocHost(&ptr, 1024 * kMiB) == orErrorOutOfMemory);
  CHILD_CHECK(ptr == nullptr);
  CHILD_CHECK(orMallocHost(&ptr, kMiB) == orSuccess);
  CHILD_CHECK(orFreeHost(ptr) == orSuccess);
  return 0;
}

TEST_F(LimitsTest, TooMuchPinnedMemoryIsOutOfMemory) {
  const ChildResult child =
      run_child("pin_under_limit", {{"OPENREG_MEMORY", "16MiB"}});
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

// Threads that cannot start leave their streams refusing work or slow, but the
// process alive.
OPENREG_CHILD(many_streams_under_limit) {
  void* ptr = nullptr;
  CHILD_CHECK(orMalloc(&ptr, 100) == orSuccess);
  const orFunction_t empty = builtin("empty");
  CHILD_CHECK(limit_address_space(address_space_bytes() + 32 * kMiB));
  int launched = 0;
  std::vector<orStream_t> streams(64, nullptr);
  for (orStream_t& stream : streams) {
    const orError_t code = orStreamCreate(&stream);
    CHILD_CHECK(code == orSuccess || is_clear_refusal(code));
    if (code != orSuccess) break;
    const orError_t launch_code = orLaunchKernel(empty, nullptr, 0, stream);
    CHILD_CHECK(launch_code == orSuccess || is_clear_refusal(launch_code));
    if (launch_code == orSuccess) ++launched;
  }
  CHILD_CHECK(launched > 0);
  CHILD_CHECK(orDeviceSynchronize() == orSuccess);
  return 0;
}

TEST_F(LimitsTest, StreamsWhoseThreadsDoNotFitAreNoCrash) {
  const ChildResult child =
      run_child("many_streams_under_limit", {{"OPENREG_MEMORY", "16MiB"}});
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

}  // namespace
}  // namespace openreg::test

#endif
