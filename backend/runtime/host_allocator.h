// The allocator of pinned host memory: PyTorch's CachingHostAllocatorImpl on
// the driver's. It registers itself; ask at::getHostAllocator for it.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "backend/export.h"

namespace torch_openreg {

// The allocator; never destroyed. Thread-safe.
TORCH_OPENREG_API at::HostAllocator* getOpenRegHostAllocator();

// Whether `ptr` lies in pinned memory, by whomever it was pinned.
TORCH_OPENREG_API bool is_pinned_ptr(const void* ptr);

}  // namespace torch_openreg
