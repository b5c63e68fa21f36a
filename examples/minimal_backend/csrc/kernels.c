/* What runs on the device. Full form: backend/simulation/device/kernels.cpp. */
#include "kernels.h"

#include <string.h>

#include "openreg/kernel.h"

OPENREG_MODULE;

/* Computes one element; `at` points to it in each tensor. */
typedef void element_fn(const struct acme_args* args, void* const* at);

/* Calls `f` for the elements of dimension `d` and those behind it. */
static void for_each(const struct acme_args* args, element_fn* f, int64_t d,
                     void* const* at) {
  if (d == args->dims) f(args, at);
  char* here[ACME_TENSORS] = {at[ACME_OUT], at[ACME_LEFT], at[ACME_RIGHT]};
  for (int64_t i = 0; d < args->dims && i < args->sizes[d]; i++) {
    for_each(args, f, d + 1, (void* const*)here);
    for (int t = 0; t < ACME_TENSORS; t++) {
      here[t] += args->strides[t][d] * args->item;
    }
  }
}

static orError_t run(orKernelContext* ctx, element_fn* f) {
  const struct acme_args* args = orKernelArgs(ctx, sizeof *args);
  if (!args) return orErrorInvalidValue;
  void* at[ACME_TENSORS];
  for (int t = 0; t < ACME_TENSORS; t++) {
    int64_t last = 0;
    for (int64_t d = 0; d < args->dims; d++) {
      last += (args->sizes[d] - 1) * args->strides[t][d];
    }
    at[t] = orKernelTranslate(ctx, args->data[t],
                              (size_t)((last + 1) * args->item));
    if (!at[t]) return orErrorIllegalAddress;
  }
  for_each(args, f, 0, at);
  return orSuccess;
}

static void copy(const struct acme_args* args, void* const* at) {
  memcpy(at[ACME_OUT], at[ACME_LEFT], (size_t)args->item);
}

static void add(const struct acme_args* args, void* const* at) {
  const float* right = at[ACME_RIGHT];
  *(float*)at[ACME_OUT] = *(float*)at[ACME_LEFT] + args->alpha * *right;
}

static void relu(const struct acme_args* args, void* const* at) {
  (void)args;
  const float in = *(float*)at[ACME_LEFT];
  *(float*)at[ACME_OUT] = in < 0.0f ? 0.0f : in; /* NaN stays NaN */
}

OPENREG_KERNEL(copy) { return run(ctx, copy); }
OPENREG_KERNEL(add) { return run(ctx, add); }
OPENREG_KERNEL(relu) { return run(ctx, relu); }
