/* Arguments of the kernels in test_kernels.c. Plain C: the module and the tests
 * include it. Pointers are device or pinned memory. */
#ifndef OPENREG_TEST_KERNELS_H
#define OPENREG_TEST_KERNELS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ScaleArgs { /* "scale": values[i] *= factor */
  uint32_t* values;
  size_t count;
  uint32_t factor;
} ScaleArgs;

typedef struct MisalignmentArgs { /* "misalignment": *rest = address % 16 */
  uint64_t* rest;
} MisalignmentArgs;

typedef struct ReplyArgs { /* "reply": replies `size` bytes of `value` */
  size_t size;
  unsigned char value;
  unsigned char ignore_refusal; /* succeed although the reply was refused */
} ReplyArgs;

typedef struct ThreadArgs { /* "thread": *id = the thread it runs on */
  uint64_t* id;
} ThreadArgs;

typedef struct ProbeArgs { /* "probe": replies whether `ptr` translates */
  const void* ptr;
  size_t size;
  int ignore_refusal; /* succeed although the pointer was refused */
} ProbeArgs;

typedef struct TwoFailuresArgs { /* "two_failures": fails, then once more */
  int first_code;
  int second_code;
  char first_message[32];
  char second_message[32];
} TwoFailuresArgs;

typedef struct ReturnArgs { /* "return_code": returns it without a message */
  int code;
} ReturnArgs;

typedef struct CallArgs { /* "call": in-process only, runs a host function */
  void (*function)(void* data);
  void* data;
} CallArgs;

typedef struct WaitArgs { /* "wait": *started += 1, then waits for *go */
  uint32_t* started;
  const uint32_t* go; /* null: nothing but a cancellation ends it */
  int give_place;     /* between orKernelBeginWait and orKernelEndWait */
} WaitArgs;

typedef struct WriteLateArgs { /* "write_late": translates `target`, */
  uint32_t* started;           /* *started += 1, waits for *go, and writes */
  const uint32_t* go;          /* *target = 1 */
  unsigned char* target;
} WriteLateArgs;

typedef struct StartedArgs { /* "use_statics" of static_module.cpp */
  uint32_t* started;
} StartedArgs;

typedef struct StepArgs { /* "step": fails unless counts[own] == expected and */
  uint64_t* counts;       /* counts[other] >= at_least; then increments */
  uint64_t count;         /* counts[own] */
  uint64_t own;
  uint64_t expected;
  uint64_t other;
  uint64_t at_least;
} StepArgs;

#endif /* OPENREG_TEST_KERNELS_H */
