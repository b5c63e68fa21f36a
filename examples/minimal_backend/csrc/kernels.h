/* The arguments of a kernel. Full form: backend/simulation/record/format.h. */
#ifndef ACME_KERNELS_H
#define ACME_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { ACME_OUT, ACME_LEFT, ACME_RIGHT, ACME_TENSORS, ACME_MAX_DIMS = 64 };

/* Tensors of the same sizes, none of which is 0. */
struct acme_args {
  int64_t dims;
  int64_t item; /* bytes of an element */
  float alpha;
  void* data[ACME_TENSORS]; /* device memory */
  int64_t sizes[ACME_MAX_DIMS];
  int64_t strides[ACME_TENSORS][ACME_MAX_DIMS];
};

#endif /* ACME_KERNELS_H */
