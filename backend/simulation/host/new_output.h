// New tensors, by what the metadata of a call says.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "backend/simulation/record/metadata_cache.h"

namespace torch_openreg {

// A tensor as `shape`, which is not empty, says. Its memory is not initialised.
at::Tensor make_output(const record::OutputShape& shape,
                       c10::DeviceIndex device);

}  // namespace torch_openreg
