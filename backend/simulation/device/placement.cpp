#include "backend/simulation/device/placement.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace torch_openreg::device {

namespace {

thread_local std::span<Placement> placements;
thread_local bool is_open = false;

// What kernels have kept; practically always empty.
struct Strays {
  std::atomic<size_t> count{0};
  std::mutex mutex;
  std::vector<void*> data;  // guarded by mutex
};

Strays& strays() {
  static auto& instance = *new Strays;
  return instance;
}

// Takes `data` back if it is a placement.
bool take_back(void* data) {
  for (Placement& placement : placements) {
    if (placement.data != data || !placement.claimed) continue;
    placement.claimed = false;
    return true;
  }
  Strays& kept = strays();
  if (kept.count.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(kept.mutex);
  if (std::erase(kept.data, data) == 0) return false;
  kept.count.fetch_sub(1);
  return true;
}

class PlacingAllocator final : public c10::Allocator {
 public:
  static PlacingAllocator& get() {
    static auto& instance = *new PlacingAllocator;
    return instance;
  }

  c10::DataPtr allocate(size_t bytes) override {
    for (Placement& placement : placements) {
      if (!is_open || placement.claimed || placement.bytes != bytes) continue;
      placement.claimed = true;
      return {placement.data, placement.data, &release,
              c10::Device(c10::DeviceType::CPU)};
    }
    return before_->allocate(bytes);
  }

  // For raw memory, where nothing tells a placement from other memory.
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* dst, const void* src, std::size_t count) const override {
    before_->copy_data(dst, src, count);
  }

 private:
  PlacingAllocator() : before_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, /*priority=*/UINT8_MAX);
    TORCH_CHECK(c10::GetCPUAllocator() == this,
                "another CPU allocator is in force");
  }

  static void release(void* data) {
    if (!take_back(data)) get().before_->raw_deleter()(data);
  }

  c10::Allocator* const before_;
};

}  // namespace

PlacementScope::PlacementScope(std::span<Placement> given) {
  PlacingAllocator::get();
  placements = given;
  is_open = true;
}

void PlacementScope::close() { is_open = false; }

PlacementScope::~PlacementScope() {
  if (C10_UNLIKELY(has_claimed(placements))) {
    Strays& kept = strays();
    const std::lock_guard lock(kept.mutex);
    for (const Placement& placement : placements) {
      if (!placement.claimed || placement.bytes == 0) continue;
      kept.data.push_back(placement.data);
      kept.count.fetch_add(1, std::memory_order_release);
    }
  }
  placements = {};
  is_open = false;
}

bool has_claimed(std::span<const Placement> all) {
  return std::ranges::any_of(all, [](const Placement& placement) {
    return placement.claimed && placement.bytes != 0;
  });
}

}  // namespace torch_openreg::device
