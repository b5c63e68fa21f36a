/* The kernel module that the tests load: it looks at everything that the kernel
 * ABI offers. Arguments are in test_kernels.h. */
#define _GNU_SOURCE
#include "test_kernels.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "openreg/kernel.h"

OPENREG_MODULE;

OPENREG_KERNEL(noop) {
  (void)ctx;
  return orSuccess;
}

OPENREG_KERNEL(scale) {
  const ScaleArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a) return orErrorInvalidValue;
  uint32_t* values =
      orKernelTranslate(ctx, a->values, a->count * sizeof *values);
  if (!values) return orErrorIllegalAddress;
  for (size_t i = 0; i < a->count; i++) values[i] *= a->factor;
  return orSuccess;
}

/* Replies with its argument bytes. */
OPENREG_KERNEL(echo) { return orKernelReply(ctx, ctx->args, ctx->size); }

/* Replies with the sum of its argument bytes, as uint64_t. */
OPENREG_KERNEL(sum_bytes) {
  const unsigned char* bytes = ctx->args;
  uint64_t sum = 0;
  for (size_t i = 0; i < ctx->size; i++) sum += bytes[i];
  return orKernelReply(ctx, &sum, sizeof sum);
}

OPENREG_KERNEL(misalignment) {
  if (!orKernelArgs(ctx, sizeof(MisalignmentArgs))) return orErrorInvalidValue;
  MisalignmentArgs copy; /* the pointer itself may be misaligned */
  memcpy(&copy, ctx->args, sizeof copy);
  uint64_t* rest = orKernelTranslate(ctx, copy.rest, sizeof *rest);
  if (!rest) return orErrorIllegalAddress;
  *rest = (uintptr_t)ctx->args % 16;
  return orSuccess;
}

/* Replies with the index of its device, as int. */
OPENREG_KERNEL(device) {
  return orKernelReply(ctx, &ctx->device, sizeof ctx->device);
}

OPENREG_KERNEL(reply) {
  static const size_t kRoom = 4096;
  const ReplyArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a || a->size > kRoom) return orErrorInvalidValue;
  unsigned char bytes[4096];
  memset(bytes, a->value, a->size);
  const orError_t code = orKernelReply(ctx, bytes, a->size);
  return a->ignore_refusal ? orSuccess : code;
}

/* Replies "a long one" and then "short". */
OPENREG_KERNEL(reply_twice) {
  const orError_t code = orKernelReply(ctx, "a long one", 10);
  return code != orSuccess ? code : orKernelReply(ctx, "short", 5);
}

OPENREG_KERNEL(thread) {
  const ThreadArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a) return orErrorInvalidValue;
  uint64_t* id = orKernelTranslate(ctx, a->id, sizeof *id);
  if (!id) return orErrorIllegalAddress;
  *id = (uint64_t)gettid();
  return orSuccess;
}

OPENREG_KERNEL(probe) {
  const ProbeArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a) return orErrorInvalidValue;
  const int translates = orKernelTranslate(ctx, a->ptr, a->size) != NULL;
  orKernelReply(ctx, &translates, sizeof translates);
  return translates || a->ignore_refusal ? orSuccess : orErrorIllegalAddress;
}

OPENREG_KERNEL(two_failures) {
  const TwoFailuresArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a) return orErrorInvalidValue;
  orKernelFail(ctx, (orError_t)a->first_code, a->first_message);
  return orKernelFail(ctx, (orError_t)a->second_code, a->second_message);
}

OPENREG_KERNEL(return_code) {
  const ReturnArgs* a = orKernelArgs(ctx, sizeof *a);
  return a ? (orError_t)a->code : orErrorInvalidValue;
}

OPENREG_KERNEL(call) {
  const CallArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a) return orErrorInvalidValue;
  a->function(a->data);
  return orSuccess;
}

OPENREG_KERNEL(wait) {
  const WaitArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a) return orErrorInvalidValue;
  static const uint32_t kNever = 0;
  uint32_t* started = orKernelTranslate(ctx, a->started, sizeof *started);
  const uint32_t* go =
      a->go ? orKernelTranslate(ctx, a->go, sizeof *go) : &kNever;
  if (!started || !go) return orErrorIllegalAddress;
  if (a->give_place) orKernelBeginWait(ctx);
  __atomic_add_fetch(started, 1, __ATOMIC_ACQ_REL);
  while (!__atomic_load_n(go, __ATOMIC_ACQUIRE) && !orKernelIsCancelled(ctx)) {
    sched_yield();
  }
  if (a->give_place) orKernelEndWait(ctx);
  return orSuccess;
}

/* Returns while it says that it waits. */
OPENREG_KERNEL(wait_without_end) {
  orKernelBeginWait(ctx);
  return orSuccess;
}

OPENREG_KERNEL(write_late) {
  const WriteLateArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a) return orErrorInvalidValue;
  uint32_t* started = orKernelTranslate(ctx, a->started, sizeof *started);
  const uint32_t* go = orKernelTranslate(ctx, a->go, sizeof *go);
  unsigned char* target = orKernelTranslate(ctx, a->target, 1);
  if (!started || !go || !target) return orErrorIllegalAddress;
  __atomic_add_fetch(started, 1, __ATOMIC_ACQ_REL);
  while (!__atomic_load_n(go, __ATOMIC_ACQUIRE) && !orKernelIsCancelled(ctx)) {
    sched_yield();
  }
  *target = 1;
  return orSuccess;
}

OPENREG_KERNEL(step) {
  const StepArgs* a = orKernelArgs(ctx, sizeof *a);
  if (!a) return orErrorInvalidValue;
  uint64_t* counts =
      orKernelTranslate(ctx, a->counts, a->count * sizeof *counts);
  if (!counts) return orErrorIllegalAddress;
  if (__atomic_load_n(&counts[a->own], __ATOMIC_RELAXED) != a->expected) {
    return orKernelFail(ctx, orErrorLaunchFailure, "the stream lost its order");
  }
  if (__atomic_load_n(&counts[a->other], __ATOMIC_RELAXED) < a->at_least) {
    return orKernelFail(ctx, orErrorLaunchFailure,
                        "an event was not waited for");
  }
  __atomic_store_n(&counts[a->own], a->expected + 1, __ATOMIC_RELAXED);
  return orSuccess;
}
