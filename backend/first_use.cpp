#include "backend/first_use.h"

#include "backend/amp/autocast.h"
#include "backend/seam.h"

namespace torch_openreg {

void register_on_first_use() {
  static const bool registered = [] {
    register_device_layouts();
    register_autocast();
    return true;
  }();
  (void)registered;
}

}  // namespace torch_openreg
