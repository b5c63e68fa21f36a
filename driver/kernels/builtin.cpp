#include "kernels/builtin.h"

#include <array>
#include <chrono>
#include <cstring>

#include "core/futex.h"
#include "openreg/testing.h"

namespace openreg {

namespace {

orError_t run_empty(orKernelContext* /*ctx*/) { return orSuccess; }

orError_t run_copy(orKernelContext* ctx) {
  const auto* args = static_cast<const orTestingCopyArgs*>(
      orKernelArgs(ctx, sizeof(orTestingCopyArgs)));
  if (args == nullptr) return orErrorInvalidValue;
  void* const dst = orKernelTranslate(ctx, args->dst, args->count);
  const void* const src = orKernelTranslate(ctx, args->src, args->count);
  if (dst == nullptr || src == nullptr) return orErrorIllegalAddress;
  std::memmove(dst, src, args->count);
  return orSuccess;
}

orError_t run_fill(orKernelContext* ctx) {
  const auto* args = static_cast<const orTestingFillArgs*>(
      orKernelArgs(ctx, sizeof(orTestingFillArgs)));
  if (args == nullptr) return orErrorInvalidValue;
  void* const dst = orKernelTranslate(ctx, args->dst, args->count);
  if (dst == nullptr) return orErrorIllegalAddress;
  std::memset(dst, args->value, args->count);
  return orSuccess;
}

orError_t run_fail(orKernelContext* ctx) {
  const auto* args = static_cast<const orTestingFailArgs*>(
      orKernelArgs(ctx, sizeof(orTestingFailArgs)));
  if (args == nullptr) return orErrorInvalidValue;
  std::array<char, sizeof args->message + 1> message{};
  std::memcpy(message.data(), args->message, sizeof args->message);
  return orKernelFail(ctx, args->code, message.data());
}

orError_t run_busy(orKernelContext* ctx) {
  const auto* args = static_cast<const orTestingBusyArgs*>(
      orKernelArgs(ctx, sizeof(orTestingBusyArgs)));
  if (args == nullptr) return orErrorInvalidValue;
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds length(args->nanoseconds);
  while (std::chrono::steady_clock::now() - start < length &&
         orKernelIsCancelled(ctx) == 0) {
    spin_pause();
  }
  return orSuccess;
}

orError_t run_append(orKernelContext* ctx) {
  const auto* args = static_cast<const orTestingAppendArgs*>(
      orKernelArgs(ctx, sizeof(orTestingAppendArgs)));
  if (args == nullptr) return orErrorInvalidValue;
  auto* const next = static_cast<uint32_t*>(
      orKernelTranslate(ctx, args->next, sizeof(uint32_t)));
  auto* const log = static_cast<uint32_t*>(
      orKernelTranslate(ctx, args->log, args->capacity * sizeof(uint32_t)));
  if (next == nullptr || log == nullptr) return orErrorIllegalAddress;
  const uint32_t at = std::atomic_ref(*next).fetch_add(1);
  if (at >= args->capacity) {
    return orKernelFail(ctx, orErrorLaunchFailure, "the log is full");
  }
  log[at] = args->value;
  return orSuccess;
}

orError_t run_gate(orKernelContext* ctx) {
  const auto* args = static_cast<const orTestingGateArgs*>(
      orKernelArgs(ctx, sizeof(orTestingGateArgs)));
  if (args == nullptr) return orErrorInvalidValue;
  auto* const gate = static_cast<GateState*>(
      orKernelTranslate(ctx, args->gate, sizeof(GateState)));
  if (gate == nullptr) return orErrorIllegalAddress;
  if (args->occupy == 0) orKernelBeginWait(ctx);
  gate->arrived.fetch_add(1);
  futex_wake_all(gate->arrived);
  while (gate->open.load() == 0 && orKernelIsCancelled(ctx) == 0) {
    futex_wait_for(gate->open, 0, kCancelPoll);
  }
  if (args->occupy == 0) orKernelEndWait(ctx);
  return orSuccess;
}

struct BuiltinKernel {
  const char* name;
  orKernelFn code;
};

constexpr BuiltinKernel kKernels[] = {
    {"append", run_append}, {"busy", run_busy}, {"copy", run_copy},
    {"empty", run_empty},   {"fail", run_fail}, {"fill", run_fill},
    {"gate", run_gate},
};

}  // namespace

orKernelFn find_builtin_kernel(const char* name) {
  for (const BuiltinKernel& kernel : kKernels) {
    if (std::strcmp(kernel.name, name) == 0) return kernel.code;
  }
  return nullptr;
}

}  // namespace openreg
