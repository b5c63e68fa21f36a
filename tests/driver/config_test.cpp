// The OPENREG_* variables: what they mean, and how a bad value is reported.
// Every case is a child process, because they are read once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "support/work.h"

namespace openreg::test {
namespace {

using ::testing::HasSubstr;
using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMiB = size_t{1} << 20;

// Children start with the defaults, whatever the tests run under.
ChildResult run_with(const std::string& child, const Variables& variables) {
  Variables env = {
      {"OPENREG_DEVICES", ""},         {"OPENREG_MEMORY", ""},
      {"OPENREG_DRIVER", ""},          {"OPENREG_ERRORS", ""},
      {"OPENREG_LAUNCH_BLOCKING", ""}, {"OPENREG_FAULT_HANDLER", ""}};
  env.insert(env.end(), variables.begin(), variables.end());
  return run_child(child, env);
}

void expect_passes(const std::string& child, const Variables& variables) {
  const ChildResult result = run_with(child, variables);
  EXPECT_EQ(result.exit_code, 0)
      << child << " with " << ::testing::PrintToString(variables) << " said:\n"
      << result.output;
}

class ConfigTest : public ::testing::Test {};

OPENREG_CHILD(print_devices) {
  int count = -1;
  CHILD_CHECK(orGetDeviceCount(&count) == orSuccess);
  std::printf("devices=%d.\n", count);
  return 0;
}

OPENREG_CHILD(print_memory) {
  size_t total = 0;
  CHILD_CHECK(orMemGetInfo(nullptr, &total) == orSuccess);
  std::printf("memory=%zu.\n", total);
  return 0;
}

// Every call fails and its message names the variable and the value, which the
// child finds in BAD_NAME and in that variable.
OPENREG_CHILD(bad_value) {
  const std::string name = std::getenv("BAD_NAME");
  const std::string value = std::getenv(name.c_str());
  int number = 0;
  size_t size = 0;
  void* ptr = nullptr;
  orStream_t stream = nullptr;
  orEvent_t event = nullptr;
  orModule_t module = nullptr;
  orDeviceProp properties{};
  const std::pair<const char*, orError_t> results[] = {
      {"orGetDeviceCount", orGetDeviceCount(&number)},
      {"orGetDevice", orGetDevice(&number)},
      {"orSetDevice", orSetDevice(0)},
      {"orGetDeviceProperties", orGetDeviceProperties(&properties, 0)},
      {"orMalloc", orMalloc(&ptr, 1)},
      {"orMallocHost", orMallocHost(&ptr, 1)},
      {"orStreamCreate", orStreamCreate(&stream)},
      {"orEventCreate", orEventCreate(&event)},
      {"orModuleGetBuiltin", orModuleGetBuiltin(&module)},
      {"orDeviceReset", orDeviceReset()},
      {"orDeviceSynchronize", orDeviceSynchronize()},
      {"orMemGetInfo", orMemGetInfo(&size, &size)},
  };
  for (const auto& [function, code] : results) {
    if (code == orErrorNotInitialized) continue;
    std::fprintf(stderr, "%s gave %s\n", function, orGetErrorName(code));
    return 1;
  }
  CHILD_CHECK(orGetLastError() == orErrorNotInitialized);
  const std::string message = orGetLastErrorMessage();
  CHILD_CHECK(message.find("orMemGetInfo") != std::string::npos);
  CHILD_CHECK(message.find(name) != std::string::npos);
  CHILD_CHECK(message.find(value) != std::string::npos);
  CHILD_CHECK(orDriverGetVersion(&number) == orSuccess);
  CHILD_CHECK(number == OPENREG_VERSION);
  return 0;
}

void expect_bad(const std::string& name, const std::string& value) {
  expect_passes("bad_value", {{"BAD_NAME", name}, {name, value}});
}

void expect_devices(const std::string& value, int devices) {
  const ChildResult child =
      run_with("print_devices", {{"OPENREG_DEVICES", value}});
  EXPECT_THAT(child.output,
              HasSubstr("devices=" + std::to_string(devices) + "."))
      << "OPENREG_DEVICES=" << value;
}

void expect_memory(const std::string& value, size_t bytes) {
  const ChildResult child =
      run_with("print_memory", {{"OPENREG_MEMORY", value}});
  EXPECT_THAT(child.output, HasSubstr("memory=" + std::to_string(bytes) + "."))
      << "OPENREG_MEMORY=" << value;
}

TEST_F(ConfigTest, DevicesIsANumberFrom0To64) {
  expect_devices("0", 0);
  expect_devices("1", 1);
  expect_devices("7", 7);
  expect_devices("64", 64);
}

TEST_F(ConfigTest, TwoDevicesAreTheDefault) { expect_devices("", 2); }

TEST_F(ConfigTest, OtherValuesOfDevicesAreBad) {
  for (const char* value : {"-1", "65", "two", "3x", "1.5", "0x2",
                            "99999999999999999999", "-99999999999999999999"}) {
    expect_bad("OPENREG_DEVICES", value);
  }
}

TEST_F(ConfigTest, MemoryTakesBytes) {
  expect_memory("16777216", 16 * kMiB);
  expect_memory("16777216B", 16 * kMiB);
}

TEST_F(ConfigTest, MemoryTakesBinaryUnitsInAnyCase) {
  expect_memory("4096KiB", 4 * kMiB);
  expect_memory("64MiB", 64 * kMiB);
  expect_memory("64mib", 64 * kMiB);
  expect_memory("64MIB", 64 * kMiB);
  expect_memory("1GiB", 1024 * kMiB);
  expect_memory("1G", 1024 * kMiB);
  expect_memory("8m", 8 * kMiB);
}

TEST_F(ConfigTest, MemoryTakesDecimalUnits) {
  const auto rounded = [](size_t bytes) {
    return bytes / (2 * kMiB) * 2 * kMiB;
  };
  expect_memory("5000KB", rounded(5'000'000));
  expect_memory("50MB", rounded(50'000'000));
  expect_memory("1gb", rounded(1'000'000'000));
}

TEST_F(ConfigTest, MemoryIsRoundedDownTo2MiB) {
  expect_memory("2MiB", 2 * kMiB);
  expect_memory("3MiB", 2 * kMiB);
  expect_memory("4194303", 2 * kMiB);
  expect_memory("4194304", 4 * kMiB);
}

TEST_F(ConfigTest, OtherValuesOfMemoryAreBad) {
  for (const char* value :
       {"0", "1MiB", "2097151", "-5", "-1GiB", "lots", "12XB", "GiB", "12GiBs",
        "16777216TiB", "99999999999999999999"}) {
    expect_bad("OPENREG_MEMORY", value);
  }
}

OPENREG_CHILD(default_memory) {
  int count = 0;
  size_t total = 0;
  CHILD_CHECK(orGetDeviceCount(&count) == orSuccess);
  CHILD_CHECK(orMemGetInfo(nullptr, &total) == orSuccess);
  const size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<size_t>(sysconf(_SC_PAGESIZE));
  CHILD_CHECK(total >= 2 * kMiB);
  CHILD_CHECK(total % (2 * kMiB) == 0);
  CHILD_CHECK(total * static_cast<size_t>(count) <= physical / 2);
  return 0;
}

TEST_F(ConfigTest, TheDevicesTakeAtMostHalfOfTheMemoryByDefault) {
  expect_passes("default_memory", {});
  expect_passes("default_memory", {{"OPENREG_DEVICES", "16"}});
}

TEST_F(ConfigTest, TheDriverCanBeNamed) {
  expect_passes("print_memory", {{"OPENREG_DRIVER", "inprocess"}});
}

TEST_F(ConfigTest, OtherDriversAreBad) {
  expect_bad("OPENREG_DRIVER", "cuda");
  expect_bad("OPENREG_DRIVER", "in");
}

// A kernel that fails before anybody can know, then two synchronisations.
OPENREG_CHILD(fail_and_synchronize_twice) {
  CHILD_CHECK(launch_failing(nullptr, orErrorLaunchFailure, "on purpose") ==
              orSuccess);
  const orError_t first = orDeviceSynchronize();
  const orError_t second = orDeviceSynchronize();
  std::printf("%s %s.\n", orGetErrorName(first), orGetErrorName(second));
  return 0;
}

TEST_F(ConfigTest, EarlyErrorsAreReportedOnce) {
  for (const char* value : {"", "early"}) {
    const ChildResult child =
        run_with("fail_and_synchronize_twice", {{"OPENREG_ERRORS", value}});
    EXPECT_THAT(child.output, HasSubstr("orErrorLaunchFailure orSuccess."));
  }
}

TEST_F(ConfigTest, GpuErrorsAreSticky) {
  const ChildResult child =
      run_with("fail_and_synchronize_twice", {{"OPENREG_ERRORS", "gpu"}});
  EXPECT_THAT(child.output,
              HasSubstr("orErrorLaunchFailure orErrorLaunchFailure."));
}

TEST_F(ConfigTest, OtherValuesOfErrorsAreBad) {
  expect_bad("OPENREG_ERRORS", "loud");
  expect_bad("OPENREG_ERRORS", "1");
}

OPENREG_CHILD(launch_is_blocking) {
  CHILD_CHECK(launch_failing(nullptr, orErrorLaunchFailure, "on purpose") ==
              orErrorLaunchFailure);
  CHILD_CHECK(orDeviceSynchronize() == orSuccess);
  PinnedBuffer<char> pinned(1);
  pinned[0] = 0;
  CHILD_CHECK(launch(builtin("fill"), orTestingFillArgs{pinned.get(), 1, 1},
                     nullptr) == orSuccess);
  CHILD_CHECK(pinned[0] == 1);
  CHILD_CHECK(orStreamQuery(nullptr) == orSuccess);
  return 0;
}

TEST_F(ConfigTest, BlockingLaunchesReturnWhenTheKernelHasRun) {
  expect_passes("launch_is_blocking", {{"OPENREG_LAUNCH_BLOCKING", "1"}});
}

OPENREG_CHILD(launch_is_asynchronous) {
  Gate gate;
  gate.hold(nullptr);
  CHILD_CHECK(launch_empty(nullptr) == orSuccess);
  CHILD_CHECK(orStreamQuery(nullptr) == orErrorNotReady);
  return 0;
}

TEST_F(ConfigTest, OtherLaunchesDoNotWait) {
  expect_passes("launch_is_asynchronous", {});
  expect_passes("launch_is_asynchronous", {{"OPENREG_LAUNCH_BLOCKING", "0"}});
}

TEST_F(ConfigTest, OtherValuesOfLaunchBlockingAreBad) {
  expect_bad("OPENREG_LAUNCH_BLOCKING", "yes");
  expect_bad("OPENREG_LAUNCH_BLOCKING", "2");
}

TEST_F(ConfigTest, TheFaultHandlerCanBeSwitched) {
  expect_passes("print_memory", {{"OPENREG_FAULT_HANDLER", "0"}});
  expect_passes("print_memory", {{"OPENREG_FAULT_HANDLER", "1"}});
}

TEST_F(ConfigTest, OtherValuesOfFaultHandlerAreBad) {
  expect_bad("OPENREG_FAULT_HANDLER", "maybe");
  expect_bad("OPENREG_FAULT_HANDLER", "2");
}

OPENREG_CHILD(read_at_first_use) {
  int count = 0;
  CHILD_CHECK(setenv("OPENREG_DEVICES", "5", 1) == 0);
  CHILD_CHECK(orGetDeviceCount(&count) == orSuccess);
  CHILD_CHECK(count == 5);
  CHILD_CHECK(setenv("OPENREG_DEVICES", "6", 1) == 0);
  CHILD_CHECK(orGetDeviceCount(&count) == orSuccess);
  CHILD_CHECK(count == 5);
  return 0;
}

TEST_F(ConfigTest, TheEnvironmentIsReadAtTheFirstUse) {
  expect_passes("read_at_first_use", {{"OPENREG_DEVICES", "3"}});
}

OPENREG_CHILD(driver_is_refused) {
  int count = 0;
  CHILD_CHECK(orGetDeviceCount(&count) == orErrorNotInitialized);
  const std::string message = orGetLastErrorMessage();
  CHILD_CHECK(message.find("OPENREG_DRIVER='remote'") != std::string::npos);
  CHILD_CHECK(message.find("'inprocess' or 'isolated'") != std::string::npos);
  return 0;
}

TEST_F(ConfigTest, AnUnknownDriverIsRefused) {
  expect_passes("driver_is_refused", {{"OPENREG_DRIVER", "remote"}});
}

OPENREG_CHILD(driver_is_isolated) {
  orDeviceProp properties{};
  CHILD_CHECK(orGetDeviceProperties(&properties, 0) == orSuccess);
  CHILD_CHECK(properties.isolated == 1);
  orDeviceProcessInfo info{};
  info.structSize = sizeof info;
  CHILD_CHECK(orDeviceGetProcessInfo(&info, 0) == orSuccess);
  CHILD_CHECK(info.pid == 0);  // it has had nothing to do
  CHILD_CHECK(orMemset(device_malloc(8), 0, 8) == orSuccess);
  CHILD_CHECK(orDeviceGetProcessInfo(&info, 0) == orSuccess);
  CHILD_CHECK(info.pid != 0);
  CHILD_CHECK(info.pid != getpid());
  return 0;
}

TEST_F(ConfigTest, TheIsolatedDriverRunsADeviceInAProcessOfItsOwn) {
  expect_passes("driver_is_isolated", {{"OPENREG_DRIVER", "isolated"}});
}

}  // namespace
}  // namespace openreg::test
