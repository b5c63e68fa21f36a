// Gives PyTorch the parts of the runtime; register_backend() calls each once.
#pragma once

namespace torch_openreg {

void register_hooks();             // hooks.cpp; the device's name, too
void register_guard();             // guard.cpp
void register_device_allocator();  // device_allocator.cpp
void register_host_allocator();    // host_allocator.cpp
void register_storage();           // storage.cpp
void register_tensor_metadata();   // tensor_metadata.cpp
void register_profiler();          // profiler.cpp

}  // namespace torch_openreg
