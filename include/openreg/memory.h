/* Device memory, pinned host memory, and copies between them.
 *
 * A device pointer is an address that the host cannot read or write: it names
 * memory of one device, and kernels and copies are the only way to reach it.
 * Pointer arithmetic inside an allocation is fine. All functions are
 * thread-safe. */
#ifndef OPENREG_MEMORY_H
#define OPENREG_MEMORY_H

#include <stddef.h>

#include "openreg/defs.h"
#include "openreg/error.h"
#include "openreg/stream.h"

OPENREG_BEGIN_DECLS

typedef enum orMemcpyKind {
  orMemcpyHostToHost = 0,
  orMemcpyHostToDevice = 1,
  orMemcpyDeviceToHost = 2,
  orMemcpyDeviceToDevice = 3,
  orMemcpyDefault = 4 /* the pointers say it */
} orMemcpyKind;

typedef enum orMemoryType {
  orMemoryTypeUnregistered = 0, /* the driver does not know this address */
  orMemoryTypeHost = 1,         /* pinned: orMallocHost or orHostRegister */
  orMemoryTypeDevice = 2
} orMemoryType;

typedef struct orPointerAttributes {
  orMemoryType type;
  int device;          /* of the allocation; -1 if type is not Device */
  void* devicePointer; /* the address for kernels; null if unregistered */
  void* hostPointer;   /* the address itself; null if device memory */
  void* base;          /* start of the allocation; null if unregistered */
  size_t size;         /* bytes that were asked for; 0 if unregistered */
} orPointerAttributes;

/* Flags of orHostRegister. */
#define orHostRegisterDefault 0x0u

/* Allocates `size` bytes on the current device, aligned to 512. The content is
 * not defined. A size of 0 succeeds and stores null. Makes no system call where
 * memory that was freed before is used again.
 *   orErrorInvalidValue    `ptr` is null, or `size` is negative as a signed
 *                          number
 *   orErrorOutOfMemory     the device has not enough memory, or none in one
 *                          piece; it goes on. `*ptr` is null */
OPENREG_API orError_t orMalloc(void** ptr, size_t size);

/* Frees what orMalloc gave, on whichever device it is; null is ignored. Waits
 * for all work that was submitted to that device before, so that nothing that
 * is queued can lose its memory.
 *   orErrorInvalidValue    `ptr` is not the start of a live allocation: freed
 *                          before, inside one, host memory, or made before the
 *                          device was reset */
OPENREG_API orError_t orFree(void* ptr);

/* Allocates `size` bytes of pinned host memory, aligned to 512, which every
 * device can copy from and to asynchronously and which kernels can use. A size
 * of 0 succeeds and stores null.
 *   orErrorInvalidValue    `ptr` is null, or `size` is negative as a signed
 *                          number
 *   orErrorOutOfMemory     the host has not enough memory. `*ptr` is null */
OPENREG_API orError_t orMallocHost(void** ptr, size_t size);

/* Frees what orMallocHost gave; null is ignored. Waits for all work that was
 * submitted to any device before.
 *   orErrorInvalidValue    `ptr` is not the start of a live pinned allocation
 */
OPENREG_API orError_t orFreeHost(void* ptr);

/* Makes `size` bytes of ordinary host memory at `ptr` pinned memory.
 *   orErrorInvalidValue    `ptr` is null, `size` is 0 or too large, `flags` is
 *                          not 0, the range is not mapped, is device memory, or
 *                          overlaps pinned memory */
OPENREG_API orError_t orHostRegister(void* ptr, size_t size,
                                     unsigned int flags);

/* Takes that back. Waits for all work that was submitted to any device before.
 *   orErrorInvalidValue    `ptr` is not the start of a registered range */
OPENREG_API orError_t orHostUnregister(void* ptr);

/* Copies `count` bytes in the order of the current device's default stream.
 * Returns when the bytes have arrived; if both sides are device memory, when
 * the copy is queued. Ranges may overlap. Reports earlier failures.
 *   orErrorInvalidValue    a null pointer with `count` > 0; `kind` is unknown
 * or contradicts a pointer; a range leaves its allocation, or is partly pinned;
 * pointer plus count overflows */
OPENREG_API orError_t orMemcpy(void* dst, const void* src, size_t count,
                               orMemcpyKind kind);

/* Copies `count` bytes in the order of `stream`. Between device and pinned
 * memory it returns at once (but see orLaunchKernel for a stream that is full).
 * From pageable memory it returns when the source may be changed: at once for
 * up to 64 KiB, else after the stream has got there. To pageable memory it
 * returns when the bytes have arrived. Errors as orMemcpy, and
 * orErrorInvalidHandle for `stream`. */
OPENREG_API orError_t orMemcpyAsync(void* dst, const void* src, size_t count,
                                    orMemcpyKind kind, orStream_t stream);

/* Copies between the memory of two devices in the order of the current
 * device's default stream; returns when the copy is queued.
 *   orErrorInvalidDevice   an index is not in [0, count)
 *   orErrorInvalidValue    a pointer is not memory of its device
 * Other errors as orMemcpy. */
OPENREG_API orError_t orMemcpyPeer(void* dst, int dstDevice, const void* src,
                                   int srcDevice, size_t count);

/* The same in the order of `stream`. */
OPENREG_API orError_t orMemcpyPeerAsync(void* dst, int dstDevice,
                                        const void* src, int srcDevice,
                                        size_t count, orStream_t stream);

/* Sets `count` bytes of device or pinned memory to the low byte of `value`, in
 * the order of the current device's default stream. Returns when it is queued
 * for device memory, when it is done for pinned memory. Reports earlier
 * failures.
 *   orErrorInvalidValue    `ptr` is null with `count` > 0, or is pageable; the
 *                          range leaves its allocation */
OPENREG_API orError_t orMemset(void* ptr, int value, size_t count);

/* The same in the order of `stream`; returns when it is queued. */
OPENREG_API orError_t orMemsetAsync(void* ptr, int value, size_t count,
                                    orStream_t stream);

/* Stores the bytes of the current device that are free and that it has in all.
 * Never waits for work. Either pointer may be null.  */
OPENREG_API orError_t orMemGetInfo(size_t* free, size_t* total);

/* Says what `ptr` is. An address that the driver does not know, null included,
 * is orMemoryTypeUnregistered and no error. Never waits for work.
 *   orErrorInvalidValue    `attributes` is null, or `ptr` is an address of a
 *                          device that belongs to no live allocation */
OPENREG_API orError_t orPointerGetAttributes(orPointerAttributes* attributes,
                                             const void* ptr);

OPENREG_END_DECLS

#endif /* OPENREG_MEMORY_H */
