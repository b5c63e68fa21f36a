// How large blocks and segments are. The sizes are CUDA's, and so are the
// settings that change them (PYTORCH_ALLOC_CONF).
#pragma once

#include <cstddef>

namespace torch_openreg::memory {

// Requests from here on (1 EiB) are refused before anything is computed with
// them: what follows cannot overflow.
constexpr size_t kTooLarge = size_t{1} << 60;

// The size of the block for a request: a multiple of 512.
size_t block_size(size_t requested);

// Whether blocks of that size come from the large pool.
bool is_large(size_t block_size);

// The size of a new segment for a block of that size.
size_t segment_size(size_t block_size);

}  // namespace torch_openreg::memory
