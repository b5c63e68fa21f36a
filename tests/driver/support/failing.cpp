#include "support/failing.h"

namespace openreg::test {

FailureBench::FailureBench() {
  OR_EXPECT_OK(orStreamCreateWithFlags(&stream, orStreamNonBlocking));
  OR_EXPECT_OK(orEventCreate(&event));
  OR_EXPECT_OK(orEventRecord(event, stream));
  OR_EXPECT_OK(orEventSynchronize(event));
  OR_EXPECT_OK(orMalloc(reinterpret_cast<void**>(&block), kSize));
}

FailureBench::~FailureBench() {
  if (stream == nullptr) return;
  OR_EXPECT_OK(orFree(block));
  OR_EXPECT_OK(orEventDestroy(event));
  OR_EXPECT_OK(orStreamDestroy(stream));
}

void FailureBench::release() {
  stream = nullptr;
  event = nullptr;
  block = nullptr;
}

std::vector<NamedCall> FailureBench::reporting_calls() {
  static char host[kSize];
  static float ms = 0;
  const orFunction_t empty = builtin("empty");
  // Questions come first: behind a launch the answer would be "not ready".
  return {
      {"orDeviceSynchronize", [] { return orDeviceSynchronize(); }},
      {"orStreamQuery", [this] { return orStreamQuery(stream); }},
      {"orStreamSynchronize", [this] { return orStreamSynchronize(stream); }},
      {"orEventQuery", [this] { return orEventQuery(event); }},
      {"orEventSynchronize", [this] { return orEventSynchronize(event); }},
      {"orEventElapsedTime",
       [this] { return orEventElapsedTime(&ms, event, event); }},
      {"orStreamWaitEvent",
       [this] { return orStreamWaitEvent(stream, event, 0); }},
      {"orLaunchHostFunc",
       [this] { return orLaunchHostFunc(stream, [](void*) {}, nullptr); }},
      {"orEventRecord", [this] { return orEventRecord(event, stream); }},
      {"orLaunchKernel",
       [this, empty] { return orLaunchKernel(empty, nullptr, 0, stream); }},
      {"orLaunchKernelEx",
       [this, empty] { return launch_cheap(empty, nullptr, 0, stream); }},
      {"orLaunchKernelSync",
       [this, empty] {
         return orLaunchKernelSync(empty, nullptr, 0, stream, nullptr, 0,
                                   nullptr);
       }},
      {"orMemcpy",
       [this] { return orMemcpy(host, block, kSize, orMemcpyDeviceToHost); }},
      {"orMemcpyAsync",
       [this] {
         return orMemcpyAsync(block, host, kSize, orMemcpyHostToDevice, stream);
       }},
      {"orMemset", [this] { return orMemset(block, 0, kSize); }},
      {"orMemsetAsync",
       [this] { return orMemsetAsync(block, 0, kSize, stream); }},
  };
}

void FailureBench::expect_no_failure() {
  for (const auto& [name, call] : reporting_calls()) {
    SCOPED_TRACE(name);
    OR_EXPECT_OK(call());
    OR_EXPECT_OK(orDeviceSynchronize());
  }
}

std::vector<NamedCall> FailureBench::silent_calls() {
  return {
      {"orMalloc and orFree",
       [] {
         void* ptr = nullptr;
         const orError_t code = orMalloc(&ptr, 100);
         return code != orSuccess ? code : orFree(ptr);
       }},
      {"orMallocHost and orFreeHost",
       [] {
         void* ptr = nullptr;
         const orError_t code = orMallocHost(&ptr, 100);
         return code != orSuccess ? code : orFreeHost(ptr);
       }},
      {"orMemGetInfo",
       [] {
         size_t free_bytes = 0;
         return orMemGetInfo(&free_bytes, nullptr);
       }},
      {"orPointerGetAttributes",
       [this] {
         orPointerAttributes attributes{};
         return orPointerGetAttributes(&attributes, block);
       }},
      {"orStreamCreate and orStreamDestroy",
       [] {
         orStream_t made = nullptr;
         const orError_t code = orStreamCreate(&made);
         return code != orSuccess ? code : orStreamDestroy(made);
       }},
      {"orEventCreate and orEventDestroy",
       [] {
         orEvent_t made = nullptr;
         const orError_t code = orEventCreate(&made);
         return code != orSuccess ? code : orEventDestroy(made);
       }},
      {"orStreamGetDevice",
       [this] {
         int device = 0;
         return orStreamGetDevice(stream, &device);
       }},
  };
}

}  // namespace openreg::test
