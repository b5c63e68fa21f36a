// The last registration of this library: initialisers run in the order in which
// the sources are linked, and this one must see all others.
#include "backend/aten/catch_all.h"

namespace torch_openreg {

namespace {

const bool kRegistered = [] {
  register_catch_all();
  return true;
}();

}  // namespace

}  // namespace torch_openreg
