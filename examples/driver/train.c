/* Trains a small network on device 0 to be the sine: three kernels a step, all
 * of them queued, while the host only looks at the loss now and then.
 *
 *   train <path of the kernel module> */
#include <math.h>
#include <string.h>

#include "check.h"
#include "openreg/openreg.h"
#include "train_kernels.h"

enum { STEPS = 12000, REPORT_EVERY = 2000 };

static void* device_memory(size_t bytes) {
  void* pointer;
  CHECK(orMalloc(&pointer, bytes));
  return pointer;
}

static orFunction_t kernel(orModule_t module, const char* name) {
  orFunction_t function;
  CHECK(orModuleGetFunction(&function, module, name));
  return function;
}

/* Points on one period of the sine, x scaled to [-1, 1]. */
static void make_points(float* x, float* target) {
  for (int i = 0; i < POINTS; i++) {
    x[i] = -1.0f + 2.0f * (float)i / (POINTS - 1);
    target[i] = sinf(3.14159265f * x[i]);
  }
}

/* Different but fixed starting values for every hidden unit. */
static struct network make_network(void) {
  struct network net = {.c = 0.0f};
  for (int j = 0; j < HIDDEN; j++) {
    net.w[j] = 2.0f * cosf(7.0f * (float)j);
    net.b[j] = sinf(5.0f * (float)j);
    net.v[j] = 0.5f * sinf(3.0f * (float)j + 1.0f);
  }
  return net;
}

static void plot(const float* x, const float* y) {
  for (int i = 0; i < POINTS; i += 15) {
    const int column = (int)lroundf(25.0f + 24.0f * y[i]);
    printf("  %6.2f |%*s\n", (double)x[i], column < 1 ? 1 : column, "*");
  }
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s <kernel module>\n", argv[0]);
    return EXIT_FAILURE;
  }
  orModule_t module;
  CHECK(orModuleLoad(&module, argv[1]));
  const orFunction_t forward = kernel(module, "forward");
  const orFunction_t backward = kernel(module, "backward");
  const orFunction_t descend = kernel(module, "descend");

  float x[POINTS], target[POINTS], y[POINTS];
  make_points(x, target);
  const struct network initial = make_network();

  struct network* net = device_memory(sizeof *net);
  struct network* grad = device_memory(sizeof *grad);
  float* device_x = device_memory(sizeof x);
  float* device_target = device_memory(sizeof target);
  float* hidden = device_memory(POINTS * HIDDEN * sizeof(float));
  float* device_y = device_memory(sizeof y);
  float* loss = device_memory(sizeof(float));
  CHECK(orMemcpy(net, &initial, sizeof initial, orMemcpyHostToDevice));
  CHECK(orMemcpy(device_x, x, sizeof x, orMemcpyHostToDevice));
  CHECK(orMemcpy(device_target, target, sizeof target, orMemcpyHostToDevice));

  const struct forward_args forward_args = {net, device_x, hidden, device_y};
  const struct backward_args backward_args = {
      net, device_x, device_target, hidden, device_y, grad, loss};
  const struct descend_args descend_args = {net, grad, 0.05f};

  float host_loss = 0.0f;
  for (int step = 0; step <= STEPS; step++) {
    CHECK(orLaunchKernel(forward, &forward_args, sizeof forward_args, NULL));
    CHECK(orLaunchKernel(backward, &backward_args, sizeof backward_args, NULL));
    CHECK(orLaunchKernel(descend, &descend_args, sizeof descend_args, NULL));
    if (step % REPORT_EVERY == 0) {
      CHECK(orMemcpy(&host_loss, loss, sizeof host_loss, orMemcpyDeviceToHost));
      printf("step %5d  loss %.6f\n", step, (double)host_loss);
    }
  }
  CHECK(orMemcpy(y, device_y, sizeof y, orMemcpyDeviceToHost));
  printf("what the network has learned:\n");
  plot(x, y);

  CHECK(orDeviceReset()); /* frees everything at once */
  return host_loss < 0.01f ? EXIT_SUCCESS : EXIT_FAILURE;
}
