// Copies between two tensors of one device: any strides, any dtypes.
#pragma once

#include "openreg/kernel.h"

namespace torch_openreg::device {

// The arguments are a CopyRecord. Failures throw.
orError_t execute_copy(orKernelContext* ctx);

}  // namespace torch_openreg::device
