/* A library that ends whoever loads it. */
#include <stdlib.h>

__attribute__((constructor)) static void end(void) { abort(); }
