/* For tests only: hold a stream back, make kernels fail or take time, look at
 * the driver's counters. openreg/openreg.h does not include this.
 *
 * A gate is a stop sign on a stream: the stream does not pass it until the test
 * opens it, so "still running" is a fact and not a race. */
#ifndef OPENREG_TESTING_H
#define OPENREG_TESTING_H

#include <stddef.h>
#include <stdint.h>

#include "openreg/defs.h"
#include "openreg/error.h"
#include "openreg/module.h"
#include "openreg/stream.h"

OPENREG_BEGIN_DECLS

/* A gate lives in pinned host memory, so that it works for a device in another
 * process too. */
typedef struct orTestingGate_st* orTestingGate_t;

/* Creates a closed gate.
 *   orErrorInvalidValue  `gate` is null */
OPENREG_API orError_t orTestingGateCreate(orTestingGate_t* gate);

/* Queues a kernel on `stream` that waits until `gate` is open. While it waits,
 * the kernels of other streams may run in its place; with `occupy` not 0 it
 * keeps its place on the device, as a kernel that computes does.
 *   orErrorInvalidHandle  `stream` is not a live stream
 *   orErrorInvalidValue   `gate` is not a live gate */
OPENREG_API orError_t orTestingGateHold(orTestingGate_t gate, orStream_t stream,
                                        int occupy);

/* Waits until `count` holds of `gate` are running (not merely queued).
 *   orErrorInvalidValue   `gate` is not a live gate */
OPENREG_API orError_t orTestingGateAwait(orTestingGate_t gate, int count);

/* Opens `gate` for good: every stream passes it, now and later.
 *   orErrorInvalidValue   `gate` is not a live gate */
OPENREG_API orError_t orTestingGateOpen(orTestingGate_t gate);

/* Frees `gate`, opening it first. Waits as orFreeHost does.
 *   orErrorInvalidValue   `gate` is not a live gate */
OPENREG_API orError_t orTestingGateDestroy(orTestingGate_t gate);

/* Arguments of the built-in kernels. Pointers are device or pinned memory. */
typedef struct orTestingCopyArgs { /* "copy": memmove */
  void* dst;
  const void* src;
  size_t count;
} orTestingCopyArgs;

typedef struct orTestingFillArgs { /* "fill": memset */
  void* dst;
  size_t count;
  int value;
} orTestingFillArgs;

typedef struct orTestingFailArgs { /* "fail": returns `code` with a message */
  orError_t code;
  char message[60];
} orTestingFailArgs;

typedef struct orTestingBusyArgs { /* "busy": computes for that long */
  uint64_t nanoseconds;
} orTestingBusyArgs;

typedef struct orTestingAppendArgs { /* "append": log[*next] = value, next++ */
  uint32_t* next; /* updated atomically: streams may share a log */
  uint32_t* log;
  uint32_t capacity; /* more than that is orErrorLaunchFailure */
  uint32_t value;
} orTestingAppendArgs;

typedef struct orTestingGateArgs { /* "gate": what orTestingGateHold launches */
  void* gate;
  int occupy;
} orTestingGateArgs;

/* What the driver holds right now, over all devices. */
typedef struct orTestingCounters {
  size_t liveStreams; /* made by the user and not destroyed */
  size_t liveEvents;
  size_t liveModules;
  size_t liveAllocations;     /* device */
  size_t liveHostAllocations; /* pinned */
  size_t workerThreads;
  size_t openDevices;   /* used at least once */
  uint64_t systemCalls; /* made for memory since the start (map, advise) */
  uint64_t queueChunks; /* blocks of queue memory that exist */
  /* Of the isolated driver, since the start; 0 with the in-process driver. */
  uint64_t deviceWaits; /* times that the program waited for a device; once
                           for each command */
  uint64_t stagedBytes; /* shared memory taken for copies, long arguments and
                           long replies */
} orTestingCounters;

/* Fills `*counters`. Exact once nothing else runs.
 *   orErrorInvalidValue  `counters` is null */
OPENREG_API orError_t orTestingGetCounters(orTestingCounters* counters);

OPENREG_END_DECLS

#endif /* OPENREG_TESTING_H */
