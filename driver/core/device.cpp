#include "core/device.h"

#include <memory>

#include "core/fault_report.h"
#include "core/system_memory.h"

namespace openreg {

namespace {

// The address space that one device may take where it is limited: what is left
// after half has been set aside for the program, divided by the devices.
size_t address_share(const Config& config) {
  const size_t space = usable_address_space();
  if (space == SIZE_MAX) return SIZE_MAX;
  return space / 2 / static_cast<size_t>(config.devices);
}

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
  const std::lock_guard lock(mutex_);
  *context = current_.load(std::memory_order_acquire);
  if (*context != nullptr) return {};
  OPENREG_RETURN_IF_ERROR(begin_locked(last_));
  *context = last_;
  return {};
}

Status Device::begin_locked(Context* previous) {
  auto context =
      std::make_unique<Context>(config_, index_, next_epoch_, previous);
  Status status = context->open(address_share(config_));
  while (!status.ok() && forget_oldest(previous)) {
    status = context->open(address_share(config_));
  }
  OPENREG_RETURN_IF_ERROR(std::move(status));
  if (config_.fault_handler) install_fault_report();
  ++next_epoch_;
  last_ = context.release();
  current_.store(last_, std::memory_order_release);
  return {};
}

Status Device::reset() {
  const std::lock_guard lock(mutex_);
  Context* const old = current_.load(std::memory_order_acquire);
  if (old == nullptr) return {};
  old->close();
  current_.store(nullptr, std::memory_order_release);
  return begin_locked(old);
}

}  // namespace openreg
