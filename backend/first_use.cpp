#include "backend/first_use.h"

#include "backend/amp/autocast.h"
#include "backend/aten/layouts/registration.h"

namespace torch_openreg {

void register_on_first_use() {
  static const bool registered = [] {
    register_layouts();
    register_autocast();
    return true;
  }();
  (void)registered;
}

}  // namespace torch_openreg
