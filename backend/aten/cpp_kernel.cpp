#include "backend/aten/cpp_kernel.h"

namespace torch_openreg {

namespace {

const c10::KernelFunction* cpp_kernel(const c10::OperatorHandle& op,
                                      c10::DispatchKey key);

// The names of private members may be used where a template is instantiated
// explicitly.
template <auto Definition, auto Kernels>
struct Opened {
  static const c10::KernelFunction* find(const c10::OperatorHandle& op,
                                         c10::DispatchKey key) {
    const auto& all = (op.*Definition)->op.*Kernels;
    const auto found = all.find(key);
    if (found == all.end()) return nullptr;
    for (const c10::impl::AnnotatedKernel& candidate : found->second) {
      const bool is_python = candidate.debug.find(".py") != std::string::npos;
      if (!is_python && candidate.kernel.isValid()) return &candidate.kernel;
    }
    return nullptr;
  }

  friend const c10::KernelFunction* cpp_kernel(const c10::OperatorHandle& op,
                                               c10::DispatchKey key) {
    return find(op, key);
  }
};

template struct Opened<&c10::OperatorHandle::operatorDef_,
                       &c10::impl::OperatorEntry::kernels_>;

}  // namespace

std::optional<c10::KernelFunction> find_cpp_kernel(
    const c10::OperatorHandle& op, c10::DispatchKey key) {
  const c10::KernelFunction* const found = cpp_kernel(op, key);
  if (found == nullptr || found->isFallthrough()) return std::nullopt;
  return *found;
}

}  // namespace torch_openreg
