// A kernel module in C++ whose kernels end by an exception.
#include <stdexcept>

#include "openreg/kernel.h"

OPENREG_MODULE;

OPENREG_KERNEL(throw_error) {
  static_cast<void>(ctx);
  throw std::runtime_error("the kernel's own words");
}

OPENREG_KERNEL(throw_number) {
  static_cast<void>(ctx);
  throw 7;
}
