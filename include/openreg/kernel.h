/* The kernel ABI: what a kernel module is written against.
 *
 * A module is a shared object. It links against nothing of OpenReg, because it
 * may run in a process that has no driver: all that a kernel may use arrives
 * through its context. A kernel looks like this:
 *
 *   OPENREG_MODULE;
 *
 *   OPENREG_KERNEL(scale) {
 *     const struct scale_args* a = orKernelArgs(ctx, sizeof *a);
 *     if (!a) return orErrorInvalidValue;
 *     float* x = orKernelTranslate(ctx, a->x, a->n * sizeof *x);
 *     if (!x) return orErrorIllegalAddress;
 *     for (size_t i = 0; i < a->n; i++) x[i] *= a->factor;
 *     return orSuccess;
 *   }
 *
 * Argument bytes are aligned to 16. A kernel runs on one thread and may start
 * others as long as they end before it returns. The context is valid only
 * inside the call and only on the thread that was called. */
#ifndef OPENREG_KERNEL_H
#define OPENREG_KERNEL_H

#include <stddef.h>

#include "openreg/defs.h"
#include "openreg/error.h"

OPENREG_BEGIN_DECLS

#define OPENREG_KERNEL_ABI_VERSION 1u

typedef struct orKernelContext orKernelContext;

/* What a kernel can ask of its device. Call these through the inline functions
 * below. */
typedef struct orKernelInterface {
  size_t structSize;
  void* (*translate)(orKernelContext* ctx, const void* ptr, size_t size);
  orError_t (*fail)(orKernelContext* ctx, orError_t code, const char* message);
  orError_t (*reply)(orKernelContext* ctx, const void* data, size_t size);
  int (*isCancelled)(orKernelContext* ctx);
  void (*beginWait)(orKernelContext* ctx);
  void (*endWait)(orKernelContext* ctx);
  void (*note)(orKernelContext* ctx, const char* what, size_t size);
} orKernelInterface;

struct orKernelContext {
  const orKernelInterface* interface;
  const void* args; /* the bytes given at the launch */
  size_t size;
  int device; /* the device that the kernel runs on */
};

/* The code of a kernel. Anything but orSuccess is a failure of the launch, and
 * so is a C++ exception. The code is delivered as it is; orErrorIllegalAddress
 * and orErrorDeviceLost are sticky; orErrorNotReady and numbers that are no
 * orError_t count as orErrorLaunchFailure. */
typedef orError_t (*orKernelFn)(orKernelContext* ctx);

typedef struct orKernelEntry {
  unsigned int abiVersion;
  orKernelFn run;
} orKernelEntry;

/* Says once per module which ABI it was built for. */
#define OPENREG_MODULE                                                     \
  OPENREG_KERNEL_EXTERN OPENREG_API const unsigned int openreg_module_abi; \
  const unsigned int openreg_module_abi = OPENREG_KERNEL_ABI_VERSION

/* Defines and exports a kernel; followed by its body, in which `ctx` is the
 * context. orModuleGetFunction finds it as "name". */
#define OPENREG_KERNEL(name)                                                   \
  static orError_t openreg_run_##name(orKernelContext* ctx);                   \
  OPENREG_KERNEL_EXTERN OPENREG_API const orKernelEntry openreg_kernel_##name; \
  const orKernelEntry openreg_kernel_##name = {OPENREG_KERNEL_ABI_VERSION,     \
                                               openreg_run_##name};            \
  static orError_t openreg_run_##name(orKernelContext* ctx)

#ifdef __cplusplus
#define OPENREG_KERNEL_EXTERN extern "C"
#else
#define OPENREG_KERNEL_EXTERN extern
#endif

/* Returns the argument bytes if there are exactly `size`; otherwise fails the
 * kernel with orErrorInvalidValue and returns null. */
static inline const void* orKernelArgs(orKernelContext* ctx, size_t size) {
  if (ctx->size == size) return ctx->args;
  ctx->interface->fail(ctx, orErrorInvalidValue,
                       "the argument buffer has the wrong size");
  return NULL;
}

/* Turns a device pointer, or one to pinned host memory, into an address that
 * the kernel can read and write for `size` bytes. Returns null, and fails the
 * kernel with orErrorIllegalAddress, if that range is not within one live
 * allocation of this device, of pinned memory, or of a peer that this device
 * may access. A size of 0 is always fine and gives a non-null address
 * that must not be used. */
static inline void* orKernelTranslate(orKernelContext* ctx, const void* ptr,
                                      size_t size) {
  return ctx->interface->translate(ctx, ptr, size);
}

/* Keeps `message` as the reason of the failure and returns `code`, so that a
 * kernel can say `return orKernelFail(...)`. The first failure counts. */
static inline orError_t orKernelFail(orKernelContext* ctx, orError_t code,
                                     const char* message) {
  return ctx->interface->fail(ctx, code, message);
}

/* Sets the reply that a synchronous launch returns to its caller; a second call
 * replaces it, and an asynchronous launch drops it. Copies the bytes.
 *   orErrorInvalidValue  longer than the caller has room for */
static inline orError_t orKernelReply(orKernelContext* ctx, const void* data,
                                      size_t size) {
  return ctx->interface->reply(ctx, data, size);
}

/* Returns 1 once the device is being reset or the program ends: a kernel that
 * may run for long asks now and then, and returns. */
static inline int orKernelIsCancelled(orKernelContext* ctx) {
  return ctx->interface->isCancelled(ctx);
}

/* Between these two the kernel only waits: others may run in its place. A
 * kernel that returns in between is fine. */
static inline void orKernelBeginWait(orKernelContext* ctx) {
  ctx->interface->beginWait(ctx);
}
static inline void orKernelEndWait(orKernelContext* ctx) {
  ctx->interface->endWait(ctx);
}

/* Says what the kernel is about to do, in a few words of `size` bytes: a device
 * that dies meanwhile is reported with it. Costs nanoseconds. */
static inline void orKernelNote(orKernelContext* ctx, const char* what,
                                size_t size) {
  if (ctx->interface->structSize <= offsetof(orKernelInterface, note)) return;
  ctx->interface->note(ctx, what, size);
}

OPENREG_END_DECLS

#endif /* OPENREG_KERNEL_H */
