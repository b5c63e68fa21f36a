#include "backend/pytorch/cpp_kernel.h"

#include <string_view>
#include <typeinfo>

namespace torch_openreg {

namespace {

// Defined by the templates below: the names of private members may be used
// where a template is instantiated explicitly.
const c10::OperatorKernel* functor_of(const c10::KernelFunction& kernel);
const c10::KernelFunction* find_kernel(const c10::OperatorHandle& op,
                                       c10::DispatchKey key, bool also_python);

// PyTorch wraps every kernel of Python into a class of this name, which is in
// no header and only takes boxed arguments. Most others take unboxed ones, and
// have names that are long to search.
bool is_in_python(const c10::KernelFunction& kernel) {
  if (kernel.isValidUnboxed()) return false;
  const c10::OperatorKernel* const functor = functor_of(kernel);
  return functor != nullptr &&
         std::string_view(typeid(*functor).name()).find("PythonKernelHolder") !=
             std::string_view::npos;
}

template <auto Boxed, auto Functor>
struct OpenedKernel {
  friend const c10::OperatorKernel* functor_of(
      const c10::KernelFunction& kernel) {
    return ((kernel.*Boxed).*Functor).get();
  }
};

template struct OpenedKernel<&c10::KernelFunction::boxed_kernel_func_,
                             &c10::BoxedKernel::functor_>;

template <auto Definition, auto Kernels>
struct OpenedOperator {
  static const c10::KernelFunction* find(const c10::OperatorHandle& op,
                                         c10::DispatchKey key,
                                         bool also_python) {
    const auto& all = (op.*Definition)->op.*Kernels;
    const auto found = all.find(key);
    if (found == all.end()) return nullptr;
    for (const c10::impl::AnnotatedKernel& candidate : found->second) {
      const c10::KernelFunction& kernel = candidate.kernel;
      if (kernel.isValid() && (also_python || !is_in_python(kernel))) {
        return &kernel;
      }
    }
    return nullptr;
  }

  friend const c10::KernelFunction* find_kernel(const c10::OperatorHandle& op,
                                                c10::DispatchKey key,
                                                bool also_python) {
    return find(op, key, also_python);
  }
};

template struct OpenedOperator<&c10::OperatorHandle::operatorDef_,
                               &c10::impl::OperatorEntry::kernels_>;

}  // namespace

std::optional<c10::KernelFunction> find_cpp_kernel(
    const c10::OperatorHandle& op, c10::DispatchKey key) {
  const c10::KernelFunction* const found =
      find_kernel(op, key, /*also_python=*/false);
  if (found == nullptr || found->isFallthrough()) return std::nullopt;
  return *found;
}

bool has_python_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  const c10::KernelFunction* const found =
      find_kernel(op, key, /*also_python=*/true);
  return found != nullptr && is_in_python(*found);
}

}  // namespace torch_openreg
