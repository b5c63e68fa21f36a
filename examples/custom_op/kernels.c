/* The kernels. They run on the device's side, where nothing of PyTorch is
 * needed: all that they may use arrives through their context. */
#include "kernels.h"

#include <math.h>

#include "openreg/kernel.h"

OPENREG_MODULE;

static float sigmoid(float value) { return 1.0f / (1.0f + expf(-value)); }

OPENREG_KERNEL(silu_mul) {
  const struct silu_mul_args* args = orKernelArgs(ctx, sizeof *args);
  if (!args) return orErrorInvalidValue;

  const size_t bytes = args->count * sizeof(float);
  const float* x = orKernelTranslate(ctx, args->x, bytes);
  const float* gate = orKernelTranslate(ctx, args->gate, bytes);
  float* out = orKernelTranslate(ctx, args->out, bytes);
  if (!x || !gate || !out) return orErrorIllegalAddress;

  for (size_t i = 0; i < args->count; i++) {
    out[i] = x[i] * gate[i] * sigmoid(gate[i]);
  }
  return orSuccess;
}

OPENREG_KERNEL(silu_mul_backward) {
  const struct silu_mul_backward_args* args = orKernelArgs(ctx, sizeof *args);
  if (!args) return orErrorInvalidValue;

  const size_t bytes = args->count * sizeof(float);
  const float* grad = orKernelTranslate(ctx, args->grad, bytes);
  const float* x = orKernelTranslate(ctx, args->x, bytes);
  const float* gate = orKernelTranslate(ctx, args->gate, bytes);
  float* grad_x = orKernelTranslate(ctx, args->grad_x, bytes);
  float* grad_gate = orKernelTranslate(ctx, args->grad_gate, bytes);
  if (!grad || !x || !gate || !grad_x || !grad_gate) {
    return orErrorIllegalAddress;
  }

  for (size_t i = 0; i < args->count; i++) {
    const float s = sigmoid(gate[i]);
    grad_x[i] = grad[i] * gate[i] * s;
    grad_gate[i] = grad[i] * x[i] * s * (1.0f + gate[i] * (1.0f - s));
  }
  return orSuccess;
}
