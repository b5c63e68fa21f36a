// Which of the recorded actions a snapshot shows.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace torch_openreg::bindings {

// Whether the user asked to leave `action` out. Needs the GIL.
bool is_skipped(c10::CachingDeviceAllocator::TraceEntry::Action action);

}  // namespace torch_openreg::bindings
