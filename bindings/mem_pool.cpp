// Memory pools, and the scopes in which a thread allocates from them.
#include "backend/runtime/mem_pool.h"

#include <memory>
#include <utility>

#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

using Scope = std::unique_ptr<OpenRegMemPoolScope>;

Scope use_mem_pool(std::shared_ptr<OpenRegMemPool> pool, int64_t device) {
  return std::make_unique<OpenRegMemPoolScope>(std::move(pool),
                                               to_index(device));
}

}  // namespace

// The ends of both may wait for the device.
void bind_mem_pool(py::module_& module) {
  py::class_<OpenRegMemPool, std::shared_ptr<OpenRegMemPool>>(
      module, "_MemPool", py::release_gil_before_calling_cpp_dtor())
      .def(py::init([](bool use_on_oom, bool no_split) {
        return OpenRegMemPool::make({use_on_oom, no_split});
      }))
      .def_property_readonly("id", &OpenRegMemPool::id)
      .def("use_count", &OpenRegMemPool::use_count);
  py::class_<OpenRegMemPoolScope, Scope>(
      module, "_MemPoolScope", py::release_gil_before_calling_cpp_dtor())
      .def("leave", wrap_pybind_function_no_gil(
                        [](OpenRegMemPoolScope& scope) { scope.leave(); }));
  module.def("_use_mem_pool", wrap_pybind_function(use_mem_pool));
}

}  // namespace torch_openreg::bindings
