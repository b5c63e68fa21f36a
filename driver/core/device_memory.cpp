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

Status DeviceMemory::open(size_t limit, size_t share, bool has_view) {
  const size_t most = share == SIZE_MAX ? SIZE_MAX : share / 2;
  size_t size = std::min(limit * kRoom, most / kMemoryGrain * kMemoryGrain);
  for (; size >= kSmallestRange;
       size = size / 2 / kMemoryGrain * kMemoryGrain) {
    Mapping addresses = Mapping::reserve(size + kGap);
    if (!addresses) continue;
    if (has_view && !reserve_view(size)) continue;
    addresses_ = std::move(addresses);
    make_heap(addresses_.address(), size, std::min(limit, size));
    return {};
  }
  return failure(
      orErrorNotInitialized,
      "device %d needs address space for %zu bytes of memory, twice, "
      "and the system does not give even %zu: raise the limit "
      "(ulimit -v), or lower OPENREG_MEMORY or OPENREG_DEVICES",
      device_, limit, kSmallestRange);
}

Status DeviceMemory::open_view(uintptr_t base, size_t size, size_t limit) {
  if (!reserve_view(size)) {
    return failure(orErrorNotInitialized,
                   "device %d gets no address space for %zu bytes", device_,
                   size);
  }
  make_heap(base, size, limit);
  return {};
}

bool DeviceMemory::reserve_view(size_t size) {
  Mapping view = Mapping::reserve(size);
  if (!view || !view.make_usable(0, size)) return false;
  hide_from_children(view.address(), size);
  view_ = std::move(view);
  return true;
}

void DeviceMemory::make_heap(uintptr_t base, size_t size, size_t limit) {
  size_ = size;
  limit_ = limit;
  Heap::GiveBack give_back = [](uintptr_t, size_t) {};
  if (view_) {
    distance_ = view_.address() - base;
    give_back = [this](uintptr_t address, size_t bytes) {
      give_back_pages(address + distance_, bytes);
    };
  }
  heap_ = std::make_unique<Heap>(base, size, limit, std::move(give_back));
  base_.store(base, std::memory_order_release);
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
