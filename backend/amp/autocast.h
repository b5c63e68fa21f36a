// Automatic mixed precision: which operators run in which type.
#pragma once

namespace torch_openreg {

// Note [Autocast]
// Inside `torch.autocast("openreg")` the key AutocastPrivateUse1 comes before
// all others. An operator of PyTorch's lists has a kernel there that casts its
// arguments and calls the operator again without the key, so that autograd sees
// the casts; every other operator passes through. The lists are those of CUDA.

// Registers these kernels; to let every other operator pass takes some
// milliseconds. To be called once, before there is a tensor on the device:
// register_on_first_use() does.
void register_autocast();

}  // namespace torch_openreg
