/* Error codes, and the last error of the calling thread.
 *
 * Every function of the driver returns an orError_t and changes nothing when
 * that is not orSuccess, unless its contract says otherwise. A failure is also
 * kept as the thread's last error, with a message that names the function, the
 * argument and its value.
 *
 * Besides the codes that a function lists, every function that touches a device
 * may return
 *   orErrorNotInitialized  the driver could not start, or the process was
 *                          forked after a device had been used
 *   orErrorInvalidDevice   there are no devices
 *   orErrorNotSupported    called from a kernel or a host function
 *   the failure of earlier work on the device, where the function says
 *   "reports earlier failures" (see docs/driver.md, "Failure"): of the stream's
 *   device where there is a stream. Arguments are checked first. */
#ifndef OPENREG_ERROR_H
#define OPENREG_ERROR_H

#include "openreg/defs.h"

OPENREG_BEGIN_DECLS

/* With these words begins, behind the function's name, the message of a failure
 * that belongs to earlier work and not to the call that reports it. */
#define OPENREG_EARLIER_FAILURE "earlier work failed: "

typedef enum orError {
  orSuccess = 0,
  /* An argument is null, out of range, or contradicts another one. */
  orErrorInvalidValue = 1,
  /* A device index that does not exist, or the wrong device for this call. */
  orErrorInvalidDevice = 2,
  /* A stream, event, module or function that was never made, was destroyed,
   * or was made before its device was reset. */
  orErrorInvalidHandle = 3,
  /* The device or the host has not enough memory left. The device goes on. */
  orErrorOutOfMemory = 4,
  /* Not a failure: work that was asked about has not finished. Becomes the
   * thread's last error all the same, as with CUDA. */
  orErrorNotReady = 5,
  /* The call is valid but this driver or this context does not offer it. */
  orErrorNotSupported = 6,
  /* A kernel used an address that is not device memory of its device, or no
   * longer is. Sticky: the device refuses work until it is reset. */
  orErrorIllegalAddress = 7,
  /* A kernel reported that it failed. */
  orErrorLaunchFailure = 8,
  /* The device is gone. Sticky until it is reset. */
  orErrorDeviceLost = 9,
  /* The driver could not start: a bad OPENREG_* value, no address space, or a
   * process that was forked after a device had been used. */
  orErrorNotInitialized = 10,
  /* A defect of the driver itself. Please report it. */
  orErrorInternal = 11,
  /* A kernel found its data wrong, such as an index that is out of range. */
  orErrorAssert = 12
} orError_t;

/* Returns the name of a code, such as "orErrorInvalidValue", or
 * "unrecognized error code". The string is static. Thread-safe. */
OPENREG_API const char* orGetErrorName(orError_t error);

/* Returns a description of a code in words, or "unrecognized error code". The
 * string is static. Thread-safe. */
OPENREG_API const char* orGetErrorString(orError_t error);

/* Returns the last error of this thread and sets it back to orSuccess. */
OPENREG_API orError_t orGetLastError(void);

/* Returns the last error of this thread and keeps it. */
OPENREG_API orError_t orPeekAtLastError(void);

/* Returns the message of the last failed call of this thread: function,
 * argument, value, reason. Empty if none has failed. orGetLastError does not
 * clear it. Valid until the thread's next failing call. */
OPENREG_API const char* orGetLastErrorMessage(void);

OPENREG_END_DECLS

#endif /* OPENREG_ERROR_H */
