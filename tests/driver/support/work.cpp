#include "support/work.h"

namespace openreg::test {

orError_t launch_empty(orStream_t stream) {
  return orLaunchKernel(builtin("empty"), nullptr, 0, stream);
}

orError_t launch_cheap(orFunction_t function, const void* args, size_t size,
                       orStream_t stream) {
  const orLaunchConfig_t config{sizeof config, stream, orLaunchCheap};
  return orLaunchKernelEx(&config, function, args, size);
}

void settle() {
  void* block = nullptr;
  OR_EXPECT_OK(orMalloc(&block, 1));
  OR_EXPECT_OK(orFree(block));
}

void await_idle(orStream_t stream) {
  EXPECT_TRUE(eventually(
      [stream] { return orStreamQuery(stream) != orErrorNotReady; }));
}

int device_count() {
  int count = 0;
  OR_EXPECT_OK(orGetDeviceCount(&count));
  return count;
}

int place_count() {
  int device = 0;
  orDeviceProp prop{};
  OR_EXPECT_OK(orGetDevice(&device));
  OR_EXPECT_OK(orGetDeviceProperties(&prop, device));
  return prop.multiProcessorCount;
}

int child_verdict() {
  return ::testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
}

void expect_child_passes(
    const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& env) {
  const ChildResult result = run_child(name, env);
  EXPECT_EQ(result.exit_code, 0) << "child " << name << " ended with signal "
                                 << result.signal << " and said:\n"
                                 << result.output;
}

}  // namespace openreg::test
