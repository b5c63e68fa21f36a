// What libtorch_openreg.so shows to others.
#pragma once

#define TORCH_OPENREG_API __attribute__((visibility("default")))
