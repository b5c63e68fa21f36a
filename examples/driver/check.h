/* Ends the program with the driver's message when a call fails. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "openreg/error.h"

#define CHECK(call)                                                 \
  do {                                                              \
    const orError_t check_code = (call);                            \
    if (check_code != orSuccess) {                                  \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__,        \
              orGetErrorName(check_code), orGetLastErrorMessage()); \
      exit(EXIT_FAILURE);                                           \
    }                                                               \
  } while (0)

#endif
