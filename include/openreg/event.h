/* Events: marks in a stream that can be waited for and timed.
 *
 * An event is recorded any number of times. Each record replaces the one
 * before; whoever waits has bound to the record that was the latest when the
 * wait was called. All functions are thread-safe. */
#ifndef OPENREG_EVENT_H
#define OPENREG_EVENT_H

#include "openreg/defs.h"
#include "openreg/error.h"
#include "openreg/stream.h"

OPENREG_BEGIN_DECLS

typedef struct orEvent_st* orEvent_t;

/* Flags of orEventCreateWithFlags. */
#define orEventDefault 0x0u
/* Waiting threads sleep instead of spinning first. */
#define orEventBlockingSync 0x1u
/* No timestamps: recording costs next to nothing. */
#define orEventDisableTiming 0x2u
/* Reserved: orErrorNotSupported. */
#define orEventInterprocess 0x4u

/* Creates an event on the current device, with timing.
 *   orErrorInvalidValue    `event` is null
 *   orErrorOutOfMemory     the host cannot hold another event */
OPENREG_API orError_t orEventCreate(orEvent_t* event);

/* The same with `flags`.
 *   orErrorInvalidValue    `event` is null or `flags` holds an unknown bit
 *   orErrorNotSupported    `flags` has orEventInterprocess */
OPENREG_API orError_t orEventCreateWithFlags(orEvent_t* event,
                                             unsigned int flags);

/* Records `event` behind all work submitted to `stream` so far. Never blocks.
 * Reports earlier failures.
 *   orErrorInvalidHandle   `event` or `stream` is not live
 *   orErrorInvalidDevice   they belong to different devices */
OPENREG_API orError_t orEventRecord(orEvent_t event, orStream_t stream);

/* Reports whether the work before the latest record has finished. Never blocks.
 *   orSuccess              it has, or the event was never recorded
 *   orErrorNotReady        it has not
 *   orErrorInvalidHandle   `event` is not a live event
 * Reports earlier failures. */
OPENREG_API orError_t orEventQuery(orEvent_t event);

/* Waits until the work before the latest record has finished; returns at once
 * if the event was never recorded. The calling thread may run that work itself,
 * but none that was submitted after the record. Reports earlier failures.
 *   orErrorInvalidHandle   `event` is not a live event */
OPENREG_API orError_t orEventSynchronize(orEvent_t event);

/* Stores the milliseconds from the latest record of `start` to that of `end`;
 * on one stream a later record is always later. Never blocks.
 *   orErrorInvalidValue    `milliseconds` is null
 *   orErrorInvalidHandle   an event is not live, was created without timing or
 *                          was never recorded
 *   orErrorInvalidDevice   they belong to different devices
 *   orErrorNotReady        a record has not been reached
 * Reports earlier failures. */
OPENREG_API orError_t orEventElapsedTime(float* milliseconds, orEvent_t start,
                                         orEvent_t end);

/* Destroys `event`. Returns at once; pending records and waits stay valid.
 *   orErrorInvalidHandle   `event` is not a live event */
OPENREG_API orError_t orEventDestroy(orEvent_t event);

OPENREG_END_DECLS

#endif /* OPENREG_EVENT_H */
