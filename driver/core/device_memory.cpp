#include "core/device_memory.h"

#include <algorithm>
#include <mutex>

#include "core/config.h"

namespace openreg {

namespace {

constexpr size_t kSmallestRange = size_t{4} << 20;
constexpr size_t kGap = kMemoryGrain;

// How many times the memory a device's addresses are, where there is room:
// then an allocation that fits finds a place in one piece nearly always.
constexpr size_t kRoom = 4;

}  // namespace

Status being_reset(int device) {
  return failure(orErrorInvalidDevice,
                 "device %d is being reset by another thread", device);
}

Status DeviceMemory::open(size_t limit, size_t share) {
  const size_t most = share == SIZE_MAX ? SIZE_MAX : share / 2;
  size_t size = std::min(limit * kRoom, most / kMemoryGrain * kMemoryGrain);
  for (; size >= kSmallestRange;
       size = size / 2 / kMemoryGrain * kMemoryGrain) {
    Mapping addresses = Mapping::reserve(size + kGap);
    if (!addresses) continue;
    Mapping view = Mapping::reserve(size);
    if (!view || !view.make_usable(0, size)) continue;
    hide_from_children(view.address(), size);
    prefer_huge_pages(view.address(), size);
    addresses_ = std::move(addresses);
    view_ = std::move(view);
    size_ = size;
    limit_ = std::min(limit, size);
    distance_ = view_.address() - addresses_.address();
    heap_ =
        std::make_unique<Heap>(addresses_.address(), size, limit_,
                               [this](uintptr_t address, size_t bytes) {
                                 give_back_pages(address + distance_, bytes);
                               });
    base_.store(addresses_.address(), std::memory_order_release);
    return {};
  }
  return failure(
      orErrorNotInitialized,
      "device %d needs address space for %zu bytes of memory, twice, "
      "and the system does not give even %zu: raise the limit "
      "(ulimit -v), or lower OPENREG_MEMORY or OPENREG_DEVICES",
      device_, limit, kSmallestRange);
}

void DeviceMemory::close() {
  const std::lock_guard lock(visitors_);
  closed_ = true;
  heap_->close();
  view_ = Mapping();
}

bool DeviceMemory::forget() {
  const bool had = base_.exchange(0, std::memory_order_acq_rel) != 0;
  addresses_ = Mapping();
  return had;
}

Status DeviceMemory::allocate(size_t size, void** pointer) {
  if (const auto address = heap_->allocate(size)) {
    *pointer = reinterpret_cast<void*>(*address);
    return {};
  }
  if (!visit().owns_lock()) return being_reset(device_);
  return failure(orErrorOutOfMemory,
                 "device %d has not enough memory: asked for %zu bytes, %zu of "
                 "%zu bytes are free, %zu of them in one piece",
                 device_, size, heap_->available(), limit_,
                 heap_->largest_piece());
}

void* DeviceMemory::find_view(const void* pointer, size_t size) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return heap_->holds(address, size) ? view(pointer) : nullptr;
}

std::shared_lock<std::shared_mutex> DeviceMemory::visit() const {
  std::shared_lock lock(visitors_);
  if (closed_) lock.unlock();
  return lock;
}

std::string DeviceMemory::describe(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const Trace trace = heap_->trace(address, /*patient=*/true);
  if (trace.block.size == 0) {
    return format_string("memory of device %d that %s", device_,
                         trace.kind == Trace::Kind::kNever
                             ? "was never allocated"
                             : "belongs to no live allocation");
  }
  return format_string(
      "%zu bytes into a %s allocation of %zu bytes at %p on device %d",
      address - trace.block.base,
      trace.kind == Trace::Kind::kLive ? "live" : "freed", trace.block.size,
      reinterpret_cast<void*>(trace.block.base), device_);
}

}  // namespace openreg
