/* A tour of the driver, from allocation to event timing: adds two vectors on
 * device 0 and checks the sum.
 *
 *   vector_add <path of the kernel module> */
#include "vector_add_kernels.h"

#include "check.h"
#include "openreg/openreg.h"

enum { COUNT = 1 << 20 };

static void describe_device(void) {
  orDeviceProp prop;
  size_t free_bytes = 0, total_bytes = 0;
  CHECK(orGetDeviceProperties(&prop, 0));
  CHECK(orMemGetInfo(&free_bytes, &total_bytes));
  printf("device 0: %s, capability %d.%d, %d processors, %zu of %zu MiB free\n",
         prop.name, prop.major, prop.minor, prop.multiProcessorCount,
         free_bytes >> 20, total_bytes >> 20);
}

/* Counts the elements that are not what they should be. */
static int count_wrong(const float* sum) {
  int wrong = 0;
  for (int i = 0; i < COUNT; i++) wrong += sum[i] != 3.0f * (float)i;
  return wrong;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s <kernel module>\n", argv[0]);
    return EXIT_FAILURE;
  }
  describe_device();

  /* Pinned host memory: copies from and to it do not hold up the host. */
  const size_t bytes = COUNT * sizeof(float);
  float *host_a, *host_b, *host_sum;
  CHECK(orMallocHost((void**)&host_a, bytes));
  CHECK(orMallocHost((void**)&host_b, bytes));
  CHECK(orMallocHost((void**)&host_sum, bytes));
  for (int i = 0; i < COUNT; i++) {
    host_a[i] = (float)i;
    host_b[i] = 2.0f * (float)i;
  }

  struct vector_add_args args = {.count = COUNT};
  CHECK(orMalloc((void**)&args.a, bytes));
  CHECK(orMalloc((void**)&args.b, bytes));
  CHECK(orMalloc((void**)&args.sum, bytes));

  orModule_t module;
  orFunction_t vector_add;
  CHECK(orModuleLoad(&module, argv[1]));
  CHECK(orModuleGetFunction(&vector_add, module, "vector_add"));

  /* Everything below is queued; the host waits once, at the end. */
  orStream_t stream;
  orEvent_t start, end;
  CHECK(orStreamCreateWithFlags(&stream, orStreamNonBlocking));
  CHECK(orEventCreate(&start));
  CHECK(orEventCreate(&end));
  CHECK(orMemcpyAsync((void*)args.a, host_a, bytes, orMemcpyHostToDevice,
                      stream));
  CHECK(orMemcpyAsync((void*)args.b, host_b, bytes, orMemcpyHostToDevice,
                      stream));
  CHECK(orEventRecord(start, stream));
  CHECK(orLaunchKernel(vector_add, &args, sizeof args, stream));
  CHECK(orEventRecord(end, stream));
  CHECK(orMemcpyAsync(host_sum, args.sum, bytes, orMemcpyDeviceToHost, stream));
  CHECK(orStreamSynchronize(stream));

  float milliseconds;
  CHECK(orEventElapsedTime(&milliseconds, start, end));
  const int wrong = count_wrong(host_sum);
  printf("added %d numbers in %.3f ms on the device, %d wrong\n", COUNT,
         (double)milliseconds, wrong);

  CHECK(orEventDestroy(start));
  CHECK(orEventDestroy(end));
  CHECK(orStreamDestroy(stream));
  CHECK(orModuleUnload(module));
  CHECK(orFree((void*)args.a));
  CHECK(orFree((void*)args.b));
  CHECK(orFree(args.sum));
  CHECK(orFreeHost(host_a));
  CHECK(orFreeHost(host_b));
  CHECK(orFreeHost(host_sum));
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
