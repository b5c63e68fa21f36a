#include "backend/runtime/reset.h"

#include "backend/runtime/check.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/stream.h"
#include "backend/seam.h"

namespace torch_openreg {

void reset_device(c10::DeviceIndex device) {
  const DeviceScope scope(resolve_device(device));
  const c10::DeviceIndex index = current_device();
  const orError_t code = orDeviceReset();
  // Whatever came of it, what there was is gone.
  begin_device_life(index);
  forget_device_kernels(index);
  forget_streams(index);
  OpenRegDeviceAllocator::get().forget_device(index);
  OPENREG_CHECK(code);
}

}  // namespace torch_openreg
