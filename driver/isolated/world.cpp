#include "isolated/world.h"

#include <sys/mman.h>

#include <new>

namespace openreg {

IsolatedWorld& IsolatedWorld::get() {
  static auto* const world = new IsolatedWorld;
  return *world;
}

Status IsolatedWorld::open() {
  const std::lock_guard lock(mutex_);
  if (is_open_) return {};
  fences_ = SharedMemory::create("openreg-fences", wire::kFencesBytes);
  staging_ = SharedMemory::create("openreg-staging", wire::kStagingBytes);
  if (!fences_ || !staging_) {
    return failure(orErrorNotInitialized,
                   "the system gives no memory that processes can share");
  }
  madvise(fences_.data(), fences_.size(), MADV_DONTFORK);
  madvise(staging_.data(), staging_.size(), MADV_DONTFORK);
  staging_heap_ = std::make_unique<Heap>(
      reinterpret_cast<uintptr_t>(staging_.data()), staging_.size(),
      staging_.size(), [](uintptr_t, size_t) {});
  is_open_ = true;
  return {};
}

bool IsolatedWorld::take_slot(uint32_t* index) {
  const std::lock_guard lock(mutex_);
  if (!free_slots_.empty()) {
    *index = free_slots_.back();
    free_slots_.pop_back();
  } else if (used_slots_ < wire::kFenceSlots) {
    *index = used_slots_++;
  } else {
    return false;
  }
  // Host functions concern one queue alone: nobody else looks at these.
  new (&slot(*index).host_requested) Timeline;
  new (&slot(*index).host_done) Timeline;
  return true;
}

void IsolatedWorld::return_slot(uint32_t index) {
  const std::lock_guard lock(mutex_);
  free_slots_.push_back(index);
}

std::byte* IsolatedWorld::take_staging(size_t size) {
  std::unique_lock lock(mutex_);
  uintptr_t address = 0;
  staging_returned_.wait(lock, [&] {
    address = staging_heap_->allocate(size).value_or(0);
    return address != 0;
  });
  return reinterpret_cast<std::byte*>(address);
}

void IsolatedWorld::return_staging(std::byte* piece) {
  {
    const std::lock_guard lock(mutex_);
    staging_heap_->end_free(reinterpret_cast<uintptr_t>(piece));
  }
  staging_returned_.notify_all();
}

}  // namespace openreg
