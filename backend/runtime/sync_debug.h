// A debugging aid that shows where the host waits for a device.
#pragma once

#include <cstdint>

#include "backend/export.h"

namespace torch_openreg {

enum class SyncDebugMode : uint8_t { kDefault = 0, kWarn = 1, kError = 2 };

// For the whole process. Thread-safe.
TORCH_OPENREG_API void set_sync_debug_mode(SyncDebugMode mode);
TORCH_OPENREG_API SyncDebugMode sync_debug_mode();

// To be called before an operation that makes the host wait for work it has
// queued, where a user may not expect it: warns or throws c10::Error, as the
// mode says. Waits that a user asks for by name (a device's, an event's) don't
// call it; as on CUDA, those for a stream do.
void note_synchronization();

}  // namespace torch_openreg
