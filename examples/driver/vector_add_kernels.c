/* A kernel module: built as a shared object, loaded by orModuleLoad. */
#include "vector_add_kernels.h"

#include "openreg/kernel.h"

OPENREG_MODULE;

OPENREG_KERNEL(vector_add) {
  const struct vector_add_args* args = orKernelArgs(ctx, sizeof *args);
  if (!args) return orErrorInvalidValue;

  const size_t bytes = args->count * sizeof(float);
  const float* a = orKernelTranslate(ctx, args->a, bytes);
  const float* b = orKernelTranslate(ctx, args->b, bytes);
  float* sum = orKernelTranslate(ctx, args->sum, bytes);
  if (!a || !b || !sum) return orErrorIllegalAddress;

  for (size_t i = 0; i < args->count; i++) sum[i] = a[i] + b[i];
  return orSuccess;
}
