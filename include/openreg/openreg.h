/* The whole public API of the OpenReg driver. Kernels are written against
 * openreg/kernel.h, and tests may use openreg/testing.h. */
#ifndef OPENREG_OPENREG_H
#define OPENREG_OPENREG_H

#include "openreg/device.h"
#include "openreg/error.h"
#include "openreg/event.h"
#include "openreg/memory.h"
#include "openreg/module.h"
#include "openreg/stream.h"
#include "openreg/version.h"

#endif /* OPENREG_OPENREG_H */
