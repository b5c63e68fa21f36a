// Everything that PyTorch is given. Full form: backend/registration.cpp.
#include "acme.h"

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  torch_acme::register_device();
  torch_acme::register_tensors(m);
  torch_acme::register_copies(m);
  torch_acme::register_operators(m);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(
      torch::CppFunction::makeFromBoxedFunction<&torch_acme::cpu_fallback>());
}

// The one thing that Python cannot ask of PyTorch itself.
TORCH_LIBRARY(acme, m) {
  m.def("default_generator", [](int64_t device) {
    return torch_acme::default_generator(static_cast<c10::DeviceIndex>(device));
  });
}
