// Modules and launches from the host's side: load, find, launch, unload, and
// the ways in which each is refused. What a kernel sees is in kernel_test.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using ModuleTest = DriverTest;

size_t argument_limit() {
  orDeviceProp prop{};
  OR_EXPECT_OK(orGetDeviceProperties(&prop, 0));
  return prop.maxKernelArguments;
}

// A load that fails leaves nothing behind.
void expect_load_refused(const char* path, const char* text) {
  const size_t before = counters().liveModules;
  orModule_t module = nullptr;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, text, orModuleLoad(&module, path));
  EXPECT_EQ(counters().liveModules, before);
}

TEST_F(ModuleTest, ALoadedModulesKernelRuns) {
  DeviceBuffer<uint32_t> values(3);
  values.set({1, 2, 3});
  TestModule module;
  Stream stream;
  const ScaleArgs args{values.get(), 3, 10};
  OR_EXPECT_OK(launch(module["scale"], args, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(values.values(), (std::vector<uint32_t>{10, 20, 30}));
}

TEST_F(ModuleTest, AModuleCanBeLoadedTwice) {
  TestModule first;
  Stream stream;
  {
    TestModule second;
    EXPECT_NE(static_cast<orModule_t>(first), static_cast<orModule_t>(second));
    OR_EXPECT_OK(orLaunchKernel(second["noop"], nullptr, 0, stream));
  }
  OR_EXPECT_OK(orLaunchKernel(first["noop"], nullptr, 0, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(ModuleTest, TheSameNameGivesTheSameFunction) {
  TestModule module;
  EXPECT_EQ(module["noop"], module["noop"]);
  EXPECT_NE(module["noop"], module["echo"]);
  EXPECT_EQ(builtin("empty"), builtin("empty"));
}

TEST_F(ModuleTest, UnknownKernelsAreRefusedByName) {
  TestModule module;
  orFunction_t function = nullptr;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "nosuchkernel",
                       orModuleGetFunction(&function, module, "nosuchkernel"));
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orModuleGetFunction(&function, module, ""));
  // A symbol of the file that is no kernel.
  OR_EXPECT_ERROR(orErrorInvalidValue,
                  orModuleGetFunction(&function, module, "openreg_module_abi"));
  EXPECT_EQ(function, nullptr);
}

TEST_F(ModuleTest, NullArgumentsAreRefused) {
  TestModule module;
  orModule_t no_module = nullptr;
  orFunction_t function = nullptr;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "module",
                       orModuleLoad(nullptr, OPENREG_TEST_MODULE));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "path",
                       orModuleLoad(&no_module, nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "module",
                       orModuleGetBuiltin(nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "function",
                       orModuleGetFunction(nullptr, module, "noop"));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "name",
                       orModuleGetFunction(&function, module, nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "module",
                       orModuleGetFunction(&function, nullptr, "noop"));
}

TEST_F(ModuleTest, FilesThatAreNoModulesAreRefused) {
  expect_load_refused("/nonexistent/kernels.so", "/nonexistent/kernels.so");
  expect_load_refused("", "path");
  expect_load_refused("libm.so.6", "libm.so.6");
  const std::string text = (std::filesystem::path(::testing::TempDir()) /
                            ("openreg_" + std::to_string(getpid()) + ".txt"))
                               .string();
  std::ofstream(text) << "this is not a shared object\n";
  expect_load_refused(text.c_str(), text.c_str());
  std::filesystem::remove(text);
}

TEST_F(ModuleTest, AModuleForAnotherAbiIsRefused) {
  expect_load_refused(OPENREG_TEST_WRONG_ABI_MODULE, "999");
}

TEST_F(ModuleTest, UnloadRefusesTheModuleAndItsFunctions) {
  TestModule module;
  const orFunction_t function = module["noop"];
  const orModule_t handle = module.release();
  orFunction_t found = nullptr;
  OR_EXPECT_OK(orModuleUnload(handle));
  OR_EXPECT_ERROR(orErrorInvalidHandle, orModuleUnload(handle));
  OR_EXPECT_ERROR(orErrorInvalidHandle,
                  orModuleGetFunction(&found, handle, "noop"));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "function",
                       orLaunchKernel(function, nullptr, 0, nullptr));
}

TEST_F(ModuleTest, UnloadWaitsForQueuedKernels) {
  Mark mark;
  DeviceBuffer<uint32_t> value(1);
  value.set({7});
  TestModule module;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  const ScaleArgs args{value.get(), 1, 2};
  OR_EXPECT_OK(launch(module["scale"], args, stream));
  OR_EXPECT_OK(mark.set_by(stream));
  gate.await();
  std::thread opener([&] { gate.open(); });
  OR_EXPECT_OK(orModuleUnload(module.release()));
  EXPECT_TRUE(mark.is_set());
  opener.join();
  EXPECT_EQ(value.values()[0], 14u);
}

TEST_F(ModuleTest, TheBuiltinModuleCannotBeUnloaded) {
  orModule_t module = nullptr;
  OR_ASSERT_OK(orModuleGetBuiltin(&module));
  OR_EXPECT_ERROR(orErrorInvalidValue, orModuleUnload(module));
  OR_EXPECT_OK(launch_empty(nullptr));
}

TEST_F(ModuleTest, BadHandlesAreRefused) {
  Stream stream;
  Event event;
  const auto as_function =
      reinterpret_cast<orFunction_t>(static_cast<orStream_t>(stream));
  const auto as_module =
      reinterpret_cast<orModule_t>(static_cast<orEvent_t>(event));
  OR_EXPECT_ERROR(orErrorInvalidHandle, orModuleUnload(as_module));
  OR_EXPECT_ERROR(orErrorInvalidHandle,
                  orModuleUnload(garbage_handle<orModule_t>()));
  OR_EXPECT_ERROR(orErrorInvalidHandle, orModuleUnload(nullptr));
  for (const orFunction_t bad :
       {as_function, garbage_handle<orFunction_t>(), orFunction_t{nullptr}}) {
    OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "function",
                         orLaunchKernel(bad, nullptr, 0, stream));
    OR_EXPECT_ERROR(
        orErrorInvalidHandle,
        orLaunchKernelSync(bad, nullptr, 0, stream, nullptr, 0, nullptr));
  }
}

TEST_F(ModuleTest, AModuleBelongsToTheDeviceThatWasCurrent) {
  OnDevice other(1);
  TestModule there;
  Stream stream_there;
  OR_EXPECT_OK(orSetDevice(0));
  Stream stream_here;
  int device = -1;
  OR_EXPECT_OK(orLaunchKernelSync(there["device"], nullptr, 0, stream_there,
                                  &device, sizeof device, nullptr));
  EXPECT_EQ(device, 1);
  OR_EXPECT_ERROR(orErrorInvalidDevice,
                  orLaunchKernel(there["noop"], nullptr, 0, stream_here));
  OR_EXPECT_ERROR(orErrorInvalidDevice,
                  orLaunchKernel(there["noop"], nullptr, 0, nullptr));
  OR_EXPECT_ERROR(orErrorInvalidDevice,
                  orLaunchKernelSync(there["noop"], nullptr, 0, stream_here,
                                     nullptr, 0, nullptr));
  OR_EXPECT_ERROR(orErrorInvalidDevice,
                  orLaunchKernel(builtin("empty"), nullptr, 0, stream_there));
}

TEST_F(ModuleTest, ArgumentsAreCopiedAtTheLaunch) {
  DeviceBuffer<uint32_t> value(1);
  value.set({1});
  TestModule module;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  ScaleArgs args{value.get(), 1, 5};
  OR_EXPECT_OK(launch(module["scale"], args, stream));
  args = {nullptr, 1, 100};
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(value.values()[0], 5u);
}

TEST_F(ModuleTest, AsManyArgumentsAsTheDeviceAllows) {
  TestModule module;
  Stream stream;
  const size_t limit = argument_limit();
  const std::vector<unsigned char> args(limit + 1, 1);
  uint64_t sum = 0;
  size_t size = 0;
  OR_EXPECT_OK(orLaunchKernelSync(module["sum_bytes"], args.data(), limit,
                                  stream, &sum, sizeof sum, &size));
  EXPECT_EQ(sum, limit);
  EXPECT_EQ(size, sizeof sum);
  OR_EXPECT_OK(orLaunchKernel(module["noop"], args.data(), limit, stream));
  for (const size_t too_many : {limit + 1, ~size_t{0}}) {
    OR_EXPECT_ERROR_SAYS(
        orErrorInvalidValue, "size",
        orLaunchKernel(module["noop"], args.data(), too_many, stream));
    OR_EXPECT_ERROR(orErrorInvalidValue,
                    orLaunchKernelSync(module["noop"], args.data(), too_many,
                                       stream, nullptr, 0, nullptr));
  }
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(ModuleTest, NullArgumentsNeedASizeOfZero) {
  TestModule module;
  Stream stream;
  OR_EXPECT_OK(orLaunchKernel(module["noop"], nullptr, 0, stream));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "args",
                       orLaunchKernel(module["noop"], nullptr, 1, stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(ModuleTest, LaunchConfigsAreChecked) {
  const orFunction_t empty = builtin("empty");
  Stream stream;
  const auto launch_with = [&](size_t struct_size, unsigned flags) {
    const orLaunchConfig_t config{struct_size, stream, flags};
    return orLaunchKernelEx(&config, empty, nullptr, 0);
  };
  constexpr size_t kSize = sizeof(orLaunchConfig_t);
  OR_EXPECT_OK(launch_with(kSize, orLaunchDefault));
  OR_EXPECT_OK(launch_with(kSize, orLaunchCheap));
  OR_EXPECT_OK(launch_with(kSize, orLaunchShort));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "config",
                       orLaunchKernelEx(nullptr, empty, nullptr, 0));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "structSize",
                       launch_with(0, orLaunchDefault));
  OR_EXPECT_ERROR(orErrorInvalidValue, launch_with(kSize - 1, orLaunchDefault));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags", launch_with(kSize, 0x4u));
  const orLaunchConfig_t no_stream{kSize, garbage_handle<orStream_t>(), 0};
  OR_EXPECT_ERROR_SAYS(orErrorInvalidHandle, "stream",
                       orLaunchKernelEx(&no_stream, empty, nullptr, 0));
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(ModuleTest, WaitedLaunchesTakeAConfig) {
  TestModule module;
  Stream stream;
  const auto echo = [&](size_t struct_size, unsigned flags) {
    const orLaunchConfig_t config{struct_size, stream, flags};
    std::array<char, 8> reply{};
    size_t size = 0;
    const orError_t code = orLaunchKernelSyncEx(
        &config, module["echo"], "text", 4, reply.data(), reply.size(), &size);
    if (code == orSuccess) {
      EXPECT_EQ(std::string(reply.data(), size), "text");
    }
    return code;
  };
  constexpr size_t kSize = sizeof(orLaunchConfig_t);
  OR_EXPECT_OK(echo(kSize, orLaunchDefault));
  OR_EXPECT_OK(echo(kSize, orLaunchCheap));
  OR_EXPECT_OK(echo(kSize, orLaunchShort));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "structSize", echo(0, 0));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "flags", echo(kSize, 0x4u));
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "config",
                       orLaunchKernelSyncEx(nullptr, module["echo"], "text", 4,
                                            nullptr, 0, nullptr));
}

// Launches into a held stream until 16 MiB are queued, and then blocks.
TEST_F(ModuleTest, LaunchesBlockOnlyWhileMoreThanSixteenMebibytesAreQueued) {
  constexpr size_t kMiB = size_t{1} << 20;
  const size_t size = std::min(argument_limit(), kMiB / 16);
  const size_t launches = 24 * kMiB / size;
  const std::vector<char> args(size);
  Stream stream;
  const orFunction_t empty = builtin("empty");
  Gate gate;
  gate.hold(stream);
  gate.await();
  std::atomic<size_t> queued = 0;
  std::thread launcher([&] {
    for (size_t i = 0; i < launches; ++i) {
      OR_EXPECT_OK(orLaunchKernel(empty, args.data(), size, stream));
      queued += size;
    }
  });
  EXPECT_TRUE(eventually([&] { return queued >= 15 * kMiB; }));
  // What comes after can't get far beyond, however long one waits.
  for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
  EXPECT_LE(queued, 17 * kMiB + size);
  gate.open();
  launcher.join();
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

}  // namespace
}  // namespace openreg::test
