#include "tests/backend/support/executor.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

namespace torch_openreg::test {

namespace {

struct FakeContext : orKernelContext {
  std::span<std::byte> memory;
  Answer answer;
};

FakeContext& of(orKernelContext* ctx) {
  return *static_cast<FakeContext*>(ctx);
}

orError_t fail(orKernelContext* ctx, orError_t code, const char* message) {
  of(ctx).answer.message = message;
  return code;
}

void* translate(orKernelContext* ctx, const void* pointer, size_t size) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  const std::span<std::byte> memory = of(ctx).memory;
  if (size == 0) return memory.data();
  const uint64_t offset = address - FakeDevice::kBase;
  if (offset > memory.size() || size > memory.size() - offset) {
    fail(ctx, orErrorIllegalAddress, "an illegal address");
    return nullptr;
  }
  return memory.data() + offset;
}

orError_t reply(orKernelContext* ctx, const void* data, size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  of(ctx).answer.reply.assign(bytes, bytes + size);
  return orSuccess;
}

constexpr orKernelInterface kInterface = {
    .structSize = sizeof kInterface,
    .translate = &translate,
    .fail = &fail,
    .reply = &reply,
    .isCancelled = [](orKernelContext*) { return 0; },
    .beginWait = [](orKernelContext*) {},
    .endWait = [](orKernelContext*) {},
    .note = [](orKernelContext*, const char*, size_t) {}};

const orKernelEntry* find(const std::string& kernel) {
  static void* const module = dlopen(OPENREG_EXECUTOR, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return nullptr;
  return static_cast<const orKernelEntry*>(
      dlsym(module, ("openreg_kernel_" + kernel).c_str()));
}

}  // namespace

FakeDevice::FakeDevice() : memory_(kBytes) {}

Answer FakeDevice::run(const char* kernel,
                       std::span<const std::byte> arguments) {
  const orKernelEntry* const entry = find(kernel);
  if (entry == nullptr) {
    ADD_FAILURE() << "no kernel " << kernel << ": " << dlerror();
    return {orErrorInternal, {}, {}};
  }
  // A copy of the exact size, aligned as the driver aligns it.
  std::vector<record::Word> aligned(arguments.size() / sizeof(record::Word) +
                                    1);
  std::memcpy(aligned.data(), arguments.data(), arguments.size());
  FakeContext ctx;
  ctx.interface = &kInterface;
  ctx.args = aligned.data();
  ctx.size = arguments.size();
  ctx.device = 0;
  ctx.memory = memory_;
  ctx.answer.code = entry->run(&ctx);
  return ctx.answer;
}

float* FakeDevice::floats(size_t offset) {
  return reinterpret_cast<float*>(memory_.data() + offset);
}

}  // namespace torch_openreg::test
