// Operators that are written by hand; register_backend() calls each once. Those
// with a library register kernels for the key that it was opened with.
#pragma once

#include <torch/library.h>

namespace torch_openreg {

void register_factories(torch::Library& m);
void register_views(torch::Library& m);
void register_resizing(torch::Library& m);
void register_copies(torch::Library& m);
// For the keys of lazy conjugation and negation.
void register_lazy_copies(torch::Library& m);
void register_streams(torch::Library& m);
void register_abs_stub(torch::Library& m);
void register_attention(torch::Library& m);
void register_dropout(torch::Library& m);
void register_fused_cells(torch::Library& m);
void register_histograms(torch::Library& m);
// PyTorch takes layers apart before autograd sees them; so for autograd's key,
// too.
void register_recurrent(torch::Library& m);

// The examples of operators that are not PyTorch's.
void register_custom_abs();
void register_custom_autograd_fn();
void register_custom_sub();

}  // namespace torch_openreg
