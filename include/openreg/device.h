/* Devices: how many there are, which one a thread uses, what they can do. */
#ifndef OPENREG_DEVICE_H
#define OPENREG_DEVICE_H

#include <stddef.h>

#include "openreg/defs.h"
#include "openreg/error.h"

OPENREG_BEGIN_DECLS

/* There are never more devices than this. */
#define OPENREG_MAX_DEVICES 64

typedef struct orDeviceProp {
  char name[256];
  size_t totalGlobalMem; /* bytes of device memory */
  int major;             /* compute capability */
  int minor;
  int multiProcessorCount;   /* kernels that the device runs at a time */
  int clockRate;             /* kHz, of the processor below; 0 if unknown */
  int coreCount;             /* processor cores that kernels may use */
  size_t memoryAlignment;    /* every orMalloc is aligned to this */
  size_t maxKernelArguments; /* bytes that one launch may carry */
  int concurrentKernels;     /* 1: streams run side by side */
  int asyncEngineCount;      /* copies that run beside kernels */
  int unifiedAddressing;     /* 1: a pointer says whose memory it is */
  int integrated;            /* 0: host and device share no address */
  int isolated;              /* 1: the device is a process of its own */
  int failuresStay;          /* 1: every failure stays until a reset */
} orDeviceProp;

/* Stores the number of devices in `*count`; 0 is a valid number. Never blocks,
 * creates no device, and works in a forked child.
 *   orErrorInvalidValue    `count` is null
 *   orErrorNotInitialized  the environment holds a bad OPENREG_* value */
OPENREG_API orError_t orGetDeviceCount(int* count);

/* Stores the calling thread's current device in `*device`; 0 in a new thread.
 * Never blocks and creates no device.
 *   orErrorInvalidValue    `device` is null
 *   orErrorInvalidDevice   there are no devices */
OPENREG_API orError_t orGetDevice(int* device);

/* Makes `device` the calling thread's current device. Other threads keep
 * theirs. Never blocks and creates no device.
 *   orErrorInvalidDevice   `device` is not in [0, count) */
OPENREG_API orError_t orSetDevice(int device);

/* Fills `*prop` for `device`. Reserves the device's address range, which costs
 * neither memory nor a thread.
 *   orErrorInvalidValue    `prop` is null
 *   orErrorInvalidDevice   `device` is not in [0, count) */
OPENREG_API orError_t orGetDeviceProperties(orDeviceProp* prop, int device);

/* How a device is doing at the moment. Later versions add fields at the end. */
typedef struct orDeviceProcessInfo {
  size_t structSize; /* set by the caller: sizeof(orDeviceProcessInfo) */
  char driver[32];   /* "inprocess" or "isolated", as OPENREG_DRIVER */
  int isOpen;        /* 1: the device was used, and all below is known */
  int pid;           /* the process that runs its kernels; 0: it has ended */
  size_t residentMemory;   /* bytes of memory that this process takes */
  size_t threads;          /* of that process */
  size_t streams;          /* that hold work or can, the default one included */
  size_t queuedCommands;   /* submitted to them and not done */
  size_t memoryUsed;       /* bytes of device memory that are allocated */
  size_t memoryLimit;      /* and how many can be */
  unsigned long long life; /* 1 before the first reset, then one more each */
} orDeviceProcessInfo;

/* Fills `*info` for `device`. Never blocks, and begins no use of the device:
 * one that was not used has no process. Of a struct of another version the
 * fields that driver and caller have in common are filled; structSize becomes
 * the number of bytes that were.
 *   orErrorInvalidValue    `info` is null, or its structSize is less than that
 *                          of the first version
 *   orErrorInvalidDevice   `device` is not in [0, count) */
OPENREG_API orError_t orDeviceGetProcessInfo(orDeviceProcessInfo* info,
                                             int device);

/* Waits until all work that was submitted to the current device before the call
 * has finished, on every stream. Reports earlier failures. */
OPENREG_API orError_t orDeviceSynchronize(void);

/* Brings the current device back to its first state: drops queued work, waits
 * for the kernels and host functions that are running, frees all of its memory,
 * destroys all of its streams, events and modules, clears its failure. Whatever
 * was made on it before is refused from then on: handles with
 * orErrorInvalidHandle, pointers with orErrorInvalidValue. Other devices are
 * not touched, but copies that they have queued on its memory fail there. */
OPENREG_API orError_t orDeviceReset(void);

/* Stores 1 in `*canAccess` if kernels on `device` can be allowed to use memory
 * of `peerDevice`, else 0. A device is not its own peer.
 *   orErrorInvalidValue    `canAccess` is null
 *   orErrorInvalidDevice   an index is not in [0, count) */
OPENREG_API orError_t orDeviceCanAccessPeer(int* canAccess, int device,
                                            int peerDevice);

/* Allows kernels on the current device to use memory of `peerDevice`, until
 * either of the two is reset. Copies between devices need no such permission.
 *   orErrorInvalidValue    `flags` is not 0, or access is already enabled
 *   orErrorInvalidDevice   no such device, or the current one
 *   orErrorNotSupported    orDeviceCanAccessPeer says 0 */
OPENREG_API orError_t orDeviceEnablePeerAccess(int peerDevice,
                                               unsigned int flags);

/* Takes the permission back. Waits for all work that was submitted to the
 * current device before.
 *   orErrorInvalidValue    access was not enabled
 *   orErrorInvalidDevice   no such device */
OPENREG_API orError_t orDeviceDisablePeerAccess(int peerDevice);

/* Stores the numbers of the lowest (`*leastPriority`, 0) and of the highest
 * priority (`*greatestPriority`, negative). Either pointer may be null. */
OPENREG_API orError_t orDeviceGetStreamPriorityRange(int* leastPriority,
                                                     int* greatestPriority);

OPENREG_END_DECLS

#endif /* OPENREG_DEVICE_H */
