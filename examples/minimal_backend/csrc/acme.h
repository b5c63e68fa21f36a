// What the files share. Full form: a header each, as backend/runtime/check.h.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "openreg/error.h"

namespace torch_acme {

constexpr c10::DeviceType kAcme = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// Throws if a call of the driver has failed, with the driver's message.
inline void check(orError_t code) {
  if (code == orSuccess) return;
  const c10::SourceLocation here{__func__, __FILE__, __LINE__};
  const char* const message = orGetLastErrorMessage();
  if (code == orErrorOutOfMemory) throw c10::OutOfMemoryError(here, message);
  throw c10::AcceleratorError(here, code, message);
}

// A device of -1 is the current one.
c10::DeviceIndex current_device();
const at::Generator& default_generator(c10::DeviceIndex device);

// Gives a storage another size; keeps what fits of its content.
void resize_storage(const c10::Storage& storage, size_t bytes);

// Queues a kernel of kernels.c on the device of `out`; does not wait. All
// tensors have elements of the same size, and are broadcast to `out`.
void launch(const char* kernel, const at::Tensor& out, const at::Tensor& left,
            const at::Tensor& right, float alpha);

// Runs an operator on the CPU: copies there and back.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// What registration.cpp calls, a function per file.
void register_device();
void register_tensors(torch::Library& m);
void register_copies(torch::Library& m);
void register_operators(torch::Library& m);

}  // namespace torch_acme
