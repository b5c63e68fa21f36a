/* The Python module torch_openreg._C: a door that leads to libtorch_bindings,
 * so that the code behind it is a library like any other. */
#include <Python.h>

PyObject* init_openreg_module(void);

__attribute__((visibility("default"))) PyObject* PyInit__C(void) {
  return init_openreg_module();
}
