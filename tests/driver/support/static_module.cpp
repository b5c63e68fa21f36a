// A kernel module in C++ with a static object. Its kernel says on standard
// error whether it has ended before that object was destroyed.
#include <sched.h>

#include <atomic>
#include <cstdio>

#include "openreg/kernel.h"
#include "test_kernels.h"

OPENREG_MODULE;

namespace {

std::atomic<bool> alive = true;

struct Statics {
  Statics() = default;
  Statics(const Statics&) = delete;
  Statics& operator=(const Statics&) = delete;
  ~Statics() {
    alive = false;
    std::fputs("the module's statics are gone\n", stderr);
  }
};
const Statics statics;

}  // namespace

// *started += 1, then uses the static object until it is cancelled.
OPENREG_KERNEL(use_statics) {
  const auto* args =
      static_cast<const StartedArgs*>(orKernelArgs(ctx, sizeof(StartedArgs)));
  if (args == nullptr) return orErrorInvalidValue;
  auto* const started = static_cast<uint32_t*>(
      orKernelTranslate(ctx, args->started, sizeof(uint32_t)));
  if (started == nullptr) return orErrorIllegalAddress;
  std::atomic_ref<uint32_t>(*started).fetch_add(1);
  while (alive && orKernelIsCancelled(ctx) == 0) sched_yield();
  std::fputs(alive ? "the kernel ended in time\n" : "the kernel is late\n",
             stderr);
  return orSuccess;
}
