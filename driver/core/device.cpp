#include "core/device.h"

#include <memory>

#include "core/fault_report.h"

namespace openreg {

namespace {

// Gives the addresses of the oldest life that still has some back.
bool forget_oldest(Context* newest) {
  Context* oldest = nullptr;
  for (Context* life = newest; life != nullptr; life = life->previous()) {
    if (life->memory().covers_any()) oldest = life;
  }
  return oldest != nullptr && oldest->memory().forget();
}

}  // namespace

Status Device::begin(Context** context) {
  used_.store(true, std::memory_order_release);
  const MutexLock lock(mutex_);
  *context = current_.load(std::memory_order_acquire);
  if (*context != nullptr) return {};
  return begin_locked(context);
}

Status Device::begin_locked(Context** context) {
  Context* const previous = newest();
  const HardwareMaker make_hardware = config_.driver == Driver::kIsolated
                                          ? make_isolated_hardware
                                          : make_inprocess_hardware;
  auto next = std::make_unique<Context>(config_, index_, next_epoch_, previous,
                                        surroundings_, make_hardware);
  const size_t wanted = previous != nullptr ? previous->memory().limit() : 0;
  Status status = next->open();
  while ((!status.ok() || next->memory().limit() < wanted) &&
         forget_oldest(previous)) {
    status = next->open();
  }
  OPENREG_RETURN_IF_ERROR(std::move(status));
  OPENREG_RETURN_IF_ERROR(next->start());
  if (config_.fault_handler) install_fault_report();
  ++next_epoch_;
  *context = next.release();
  newest_.store(*context, std::memory_order_release);
  current_.store(*context, std::memory_order_release);
  return {};
}

Status Device::reset() {
  const MutexLock lock(mutex_);
  Context* const old = current_.load(std::memory_order_acquire);
  if (old == nullptr) return {};
  old->close();
  current_.store(nullptr, std::memory_order_release);
  Context* fresh = nullptr;
  return begin_locked(&fresh);
}

}  // namespace openreg
