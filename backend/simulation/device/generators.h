// The sources that random kernels draw from, on the device's side.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

#include "openreg/kernel.h"

namespace torch_openreg::device {

// The source with this number, which set_generator has made; throws
// std::invalid_argument if there is none. Thread-safe. Its use is ordered by
// the streams of the device.
at::Generator find_generator(uint64_t id);

// The kernels that the host's generators launch. Arguments: the number, and to
// set it a seed (8 bytes) or a whole state. Failures throw.
orError_t set_generator(orKernelContext* ctx);
orError_t get_generator(orKernelContext* ctx);
orError_t drop_generator(orKernelContext* ctx);

}  // namespace torch_openreg::device
