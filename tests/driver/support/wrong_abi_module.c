/* A module that says it was built for an ABI that no driver has. */
#include "openreg/kernel.h"

extern OPENREG_API const unsigned int openreg_module_abi;
const unsigned int openreg_module_abi = 999u;

OPENREG_KERNEL(noop) {
  (void)ctx;
  return orSuccess;
}
