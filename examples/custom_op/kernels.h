/* What the operators and the kernels agree on. */
#ifndef OPENREG_SILU_MUL_KERNELS_H
#define OPENREG_SILU_MUL_KERNELS_H

#include <stddef.h>

/* Every pointer is device memory, of `count` numbers. */
struct silu_mul_args {
  const float* x;
  const float* gate;
  float* out;
  size_t count;
};

struct silu_mul_backward_args {
  const float* grad;
  const float* x;
  const float* gate;
  float* grad_x;
  float* grad_gate;
  size_t count;
};

#endif /* OPENREG_SILU_MUL_KERNELS_H */
