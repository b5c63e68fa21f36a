/* What the host and the kernels of this example agree on. */
#ifndef VECTOR_ADD_KERNELS_H
#define VECTOR_ADD_KERNELS_H

#include <stddef.h>

struct vector_add_args {
  const float* a; /* device memory, as all three */
  const float* b;
  float* sum;
  size_t count;
};

#endif
