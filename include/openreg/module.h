/* Modules and kernels, from the host's side: load, find, launch. What a kernel
 * looks like from the inside is in openreg/kernel.h. All functions are
 * thread-safe. */
#ifndef OPENREG_MODULE_H
#define OPENREG_MODULE_H

#include <stddef.h>

#include "openreg/defs.h"
#include "openreg/error.h"
#include "openreg/stream.h"

OPENREG_BEGIN_DECLS

typedef struct orModule_st* orModule_t;
typedef struct orFunction_st* orFunction_t;

/* Flags of orLaunchConfig_t. */
#define orLaunchDefault 0x0u
/* The kernel is so short that handing it to another thread would cost more: if
 * the stream is idle, it may run on the calling thread before the launch
 * returns. */
#define orLaunchCheap 0x1u
/* The kernel takes about as long as waking a thread: the same, but only if the
 * stream has no thread that is awake. */
#define orLaunchShort 0x2u

/* How to launch. Later versions add fields at the end, after the padding: from
 * byte 24 on. What an older caller does not have is 0. */
typedef struct orLaunchConfig {
  size_t structSize; /* set by the caller: sizeof(orLaunchConfig_t) */
  orStream_t stream;
  unsigned int flags;
} orLaunchConfig_t;

/* Loads the kernel module at `path`, a shared object, on the current device.
 * Blocks while it loads.
 *   orErrorInvalidValue    `module` or `path` is null; the file does not exist,
 *                          cannot be loaded, or was built for another version
 *                          of the kernel ABI */
OPENREG_API orError_t orModuleLoad(orModule_t* module, const char* path);

/* Gives the module that every device has: `empty`, `copy`, `fill`, and kernels
 * for tests; openreg/testing.h has their arguments. It need not be unloaded,
 * and cannot be; it goes with a reset, as every module.
 *   orErrorInvalidValue    `module` is null */
OPENREG_API orError_t orModuleGetBuiltin(orModule_t* module);

/* Unloads `module`; its functions are refused from then on. Waits for all work
 * that was submitted to its device before.
 *   orErrorInvalidHandle   `module` is not a live module
 *   orErrorInvalidValue    `module` is the built-in one */
OPENREG_API orError_t orModuleUnload(orModule_t module);

/* Finds the kernel called `name`. The function lives as long as its module and
 * the same name gives the same function.
 *   orErrorInvalidValue    `function` or `name` is null; no such kernel
 *   orErrorInvalidHandle   `module` is not a live module */
OPENREG_API orError_t orModuleGetFunction(orFunction_t* function,
                                          orModule_t module, const char* name);

/* Queues a kernel on `stream`. The `size` bytes at `args` are copied before the
 * call returns; `args` may be null if `size` is 0. Blocks only while the stream
 * holds more than 16 MiB of queued launches. Reports earlier failures.
 *   orErrorInvalidHandle   `function` or `stream` is not live
 *   orErrorInvalidDevice   they belong to different devices
 *   orErrorInvalidValue    `args` is null with `size` > 0, or `size` is more
 *                          than orDeviceProp.maxKernelArguments */
OPENREG_API orError_t orLaunchKernel(orFunction_t function, const void* args,
                                     size_t size, orStream_t stream);

/* The same with the stream and flags of `config`.
 *   orErrorInvalidValue    `config` is null, has an unknown flag, or a
 *                          structSize that is less than that of the first
 *                          version or more than this driver knows */
OPENREG_API orError_t orLaunchKernelEx(const orLaunchConfig_t* config,
                                       orFunction_t function, const void* args,
                                       size_t size);

/* Runs a kernel in the order of `stream`, waits for it, and gives back its
 * reply: up to `replyCapacity` bytes at `reply`, the length in `*replySize`
 * (which may be null). The failure of this kernel is returned here, by its own
 * code; of earlier work too, as with orStreamSynchronize: what is at `reply` is
 * then not to be used.
 *   orErrorInvalidValue    as orLaunchKernel; `reply` is null with
 *                          `replyCapacity` > 0; or the reply was longer than
 *                          that, and nothing is stored */
OPENREG_API orError_t orLaunchKernelSync(orFunction_t function,
                                         const void* args, size_t size,
                                         orStream_t stream, void* reply,
                                         size_t replyCapacity,
                                         size_t* replySize);

/* The same with the stream and flags of `config`: of a kernel that is cheap, a
 * device in another process need not wake a thread.
 *   orErrorInvalidValue    as orLaunchKernelEx and orLaunchKernelSync */
OPENREG_API orError_t orLaunchKernelSyncEx(const orLaunchConfig_t* config,
                                           orFunction_t function,
                                           const void* args, size_t size,
                                           void* reply, size_t replyCapacity,
                                           size_t* replySize);

OPENREG_END_DECLS

#endif /* OPENREG_MODULE_H */
