// Marks the symbols that libtorch_openreg.so exports.
#pragma once

#define TORCH_OPENREG_API __attribute__((visibility("default")))
