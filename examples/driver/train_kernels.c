/* The kernels of a small network: forward, backward, and the optimizer. */
#include "train_kernels.h"

#include <math.h>
#include <string.h>

#include "openreg/kernel.h"

OPENREG_MODULE;

OPENREG_KERNEL(forward) {
  const struct forward_args* args = orKernelArgs(ctx, sizeof *args);
  if (!args) return orErrorInvalidValue;
  const struct network* net =
      orKernelTranslate(ctx, args->net, sizeof *args->net);
  const float* x = orKernelTranslate(ctx, args->x, POINTS * sizeof *x);
  float* y = orKernelTranslate(ctx, args->y, POINTS * sizeof *y);
  float* hidden =
      orKernelTranslate(ctx, args->hidden, POINTS * HIDDEN * sizeof *hidden);
  if (!net || !x || !y || !hidden) return orErrorIllegalAddress;

  for (int i = 0; i < POINTS; i++) {
    y[i] = net->c;
    for (int j = 0; j < HIDDEN; j++) {
      const float h = tanhf(net->w[j] * x[i] + net->b[j]);
      hidden[i * HIDDEN + j] = h;
      y[i] += net->v[j] * h;
    }
  }
  return orSuccess;
}

OPENREG_KERNEL(backward) {
  const struct backward_args* args = orKernelArgs(ctx, sizeof *args);
  if (!args) return orErrorInvalidValue;
  const struct network* net =
      orKernelTranslate(ctx, args->net, sizeof *args->net);
  struct network* grad = orKernelTranslate(ctx, args->grad, sizeof *args->grad);
  const float* x = orKernelTranslate(ctx, args->x, POINTS * sizeof *x);
  const float* y = orKernelTranslate(ctx, args->y, POINTS * sizeof *y);
  const float* target =
      orKernelTranslate(ctx, args->target, POINTS * sizeof *target);
  const float* hidden =
      orKernelTranslate(ctx, args->hidden, POINTS * HIDDEN * sizeof *hidden);
  float* loss = orKernelTranslate(ctx, args->loss, sizeof *loss);
  if (!net || !grad || !x || !y || !target || !hidden || !loss) {
    return orErrorIllegalAddress;
  }

  memset(grad, 0, sizeof *grad);
  *loss = 0.0f;
  for (int i = 0; i < POINTS; i++) {
    const float error = y[i] - target[i];
    const float dy = 2.0f * error / POINTS;
    *loss += error * error / POINTS;
    grad->c += dy;
    for (int j = 0; j < HIDDEN; j++) {
      const float h = hidden[i * HIDDEN + j];
      const float dz = dy * net->v[j] * (1.0f - h * h);
      grad->v[j] += dy * h;
      grad->w[j] += dz * x[i];
      grad->b[j] += dz;
    }
  }
  return orSuccess;
}

OPENREG_KERNEL(descend) {
  const struct descend_args* args = orKernelArgs(ctx, sizeof *args);
  if (!args) return orErrorInvalidValue;
  float* net = orKernelTranslate(ctx, args->net, sizeof *args->net);
  const float* grad = orKernelTranslate(ctx, args->grad, sizeof *args->grad);
  if (!net || !grad) return orErrorIllegalAddress;

  const size_t count = sizeof(struct network) / sizeof(float);
  for (size_t i = 0; i < count; i++) net[i] -= args->rate * grad[i];
  return orSuccess;
}
