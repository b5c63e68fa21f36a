/* Streams: queues of work that the device runs in order.
 *
 * A null orStream_t is the default stream of the current device. A stream
 * belongs to the device that was current when it was created, and is accepted
 * whichever device is current. All functions are thread-safe. */
#ifndef OPENREG_STREAM_H
#define OPENREG_STREAM_H

#include "openreg/defs.h"
#include "openreg/error.h"

OPENREG_BEGIN_DECLS

typedef struct orStream_st* orStream_t;
struct orEvent_st;

/* A function that runs on the host in a stream's order. It must not call the
 * driver: every such call gives orErrorNotSupported. */
typedef void (*orHostFn_t)(void* userData);

/* Flags of orStreamCreateWithFlags. A stream made with orStreamDefault orders
 * itself with the default stream: work on either waits for the work that was
 * submitted to the other before. One made with orStreamNonBlocking doesn't. */
#define orStreamDefault 0x0u
#define orStreamNonBlocking 0x1u

/* Creates a stream on the current device with orStreamDefault and the lowest
 * priority. Its worker thread starts with its first queued work.
 *   orErrorInvalidValue    `stream` is null
 *   orErrorOutOfMemory     the host cannot hold another stream */
OPENREG_API orError_t orStreamCreate(orStream_t* stream);

/* The same with `flags`.
 *   orErrorInvalidValue    `stream` is null or `flags` holds an unknown bit */
OPENREG_API orError_t orStreamCreateWithFlags(orStream_t* stream,
                                              unsigned int flags);

/* The same with `flags` and `priority`, which is clamped to
 * orDeviceGetStreamPriorityRange. Where more kernels are ready than the device
 * runs at a time, those of the stream with the smaller number go first. */
OPENREG_API orError_t orStreamCreateWithPriority(orStream_t* stream,
                                                 unsigned int flags,
                                                 int priority);

/* Destroys `stream`. Returns at once: queued work still runs, and its memory
 * and thread are released after it.
 *   orErrorInvalidHandle   `stream` is not a live stream
 *   orErrorInvalidValue    `stream` is the default stream */
OPENREG_API orError_t orStreamDestroy(orStream_t stream);

/* Reports whether all work submitted to `stream` has finished. Never blocks.
 *   orSuccess             idle
 *   orErrorNotReady       work is queued or running
 *   orErrorInvalidHandle  `stream` is not a live stream
 * Reports earlier failures. */
OPENREG_API orError_t orStreamQuery(orStream_t stream);

/* Waits until all work submitted to `stream` before the call has finished. The
 * calling thread may run that work itself. Reports earlier failures.
 *   orErrorInvalidHandle  `stream` is not a live stream */
OPENREG_API orError_t orStreamSynchronize(orStream_t stream);

/* Makes work that is submitted to `stream` from now on wait for the record of
 * `event` that is the latest at this call; later records don't matter. An event
 * that was never recorded is no obstacle. The two may belong to different
 * devices. Never blocks the host. Reports earlier failures.
 *   orErrorInvalidHandle  `stream` or `event` is not live
 *   orErrorInvalidValue   `flags` is not 0 */
OPENREG_API orError_t orStreamWaitEvent(orStream_t stream,
                                        struct orEvent_st* event,
                                        unsigned int flags);

/* Runs `fn(userData)` on the host after the work submitted before, and holds
 * back the work submitted after until it returns. Not called if the device has
 * a sticky failure by then. Blocks only as orLaunchKernel does. Reports earlier
 * failures.
 *   orErrorInvalidHandle  `stream` is not a live stream
 *   orErrorInvalidValue   `fn` is null */
OPENREG_API orError_t orLaunchHostFunc(orStream_t stream, orHostFn_t fn,
                                       void* userData);

/* Stores the device of `stream`. Never blocks.
 *   orErrorInvalidHandle  `stream` is not a live stream
 *   orErrorInvalidValue   `device` is null */
OPENREG_API orError_t orStreamGetDevice(orStream_t stream, int* device);

/* Stores the priority of `stream` after clamping. Never blocks.
 *   orErrorInvalidHandle  `stream` is not a live stream
 *   orErrorInvalidValue   `priority` is null */
OPENREG_API orError_t orStreamGetPriority(orStream_t stream, int* priority);

/* Stores the flags that `stream` was created with. Never blocks.
 *   orErrorInvalidHandle  `stream` is not a live stream
 *   orErrorInvalidValue   `flags` is null */
OPENREG_API orError_t orStreamGetFlags(orStream_t stream, unsigned int* flags);

OPENREG_END_DECLS

#endif /* OPENREG_STREAM_H */
