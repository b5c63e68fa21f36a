/* The version of the driver. The macros are the version that a program was
 * compiled against, orDriverGetVersion is the one that it runs with. */
#ifndef OPENREG_VERSION_H
#define OPENREG_VERSION_H

#include "openreg/defs.h"
#include "openreg/error.h"

/* The build reads these three lines: they are the only place with a version. */
#define OPENREG_VERSION_MAJOR 0
#define OPENREG_VERSION_MINOR 1
#define OPENREG_VERSION_PATCH 0

#define OPENREG_VERSION                                          \
  (OPENREG_VERSION_MAJOR * 10000 + OPENREG_VERSION_MINOR * 100 + \
   OPENREG_VERSION_PATCH)

OPENREG_BEGIN_DECLS

/* Stores OPENREG_VERSION of the loaded library in `*version`. Never blocks and
 * does not initialise the driver.
 *   orErrorInvalidValue  `version` is null */
OPENREG_API orError_t orDriverGetVersion(int* version);

OPENREG_END_DECLS

#endif /* OPENREG_VERSION_H */
