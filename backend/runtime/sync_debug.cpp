#include "backend/runtime/sync_debug.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace torch_openreg {

namespace {

std::atomic<SyncDebugMode> current{SyncDebugMode::kDefault};

}  // namespace

void set_sync_debug_mode(SyncDebugMode mode) { current = mode; }

SyncDebugMode sync_debug_mode() {
  return current.load(std::memory_order_relaxed);
}

void note_synchronization() {
  const SyncDebugMode mode = sync_debug_mode();
  if (C10_LIKELY(mode == SyncDebugMode::kDefault)) return;
  TORCH_CHECK(mode != SyncDebugMode::kError,
              "called a synchronizing OpenReg operation");
  TORCH_WARN("called a synchronizing OpenReg operation");
}

}  // namespace torch_openreg
