#include "isolated/world.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>

#include "core/counters.h"

namespace openreg {

namespace {

// How often one who waits for staging memory looks at the queues that use it.
constexpr std::chrono::milliseconds kStagingPoll{1};

}  // namespace

IsolatedWorld& IsolatedWorld::get() {
  static auto* const world = new IsolatedWorld;
  return *world;
}

Status IsolatedWorld::open() {
  const MutexLock lock(mutex_);
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
  const MutexLock lock(mutex_);
  const auto is_done = [this](const Returned& returned) {
    return slot(returned.index).done.reached(returned.last);
  };
  const auto found =
      std::find_if(free_slots_.begin(), free_slots_.end(), is_done);
  if (found != free_slots_.end()) {
    *index = found->index;
    free_slots_.erase(found);
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

void IsolatedWorld::return_slot(uint32_t index, uint64_t last) {
  const MutexLock lock(mutex_);
  free_slots_.push_back({index, last});
}

void IsolatedWorld::add_hardware(const Context& context,
                                 IsolatedHardware& hardware) {
  const MutexLock lock(mutex_);
  hardware_[&context] = &hardware;
}

void IsolatedWorld::remove_hardware(const Context& context) {
  const MutexLock lock(mutex_);
  hardware_.erase(&context);
}

IsolatedHardware& IsolatedWorld::hardware_of(const Context& context) {
  const MutexLock lock(mutex_);
  return *hardware_.at(&context);
}

std::byte* IsolatedWorld::take_staging(size_t size) {
  counters().staged_bytes.fetch_add(size, std::memory_order_relaxed);
  for (;;) {
    // First: memory that was used just now is still in the caches.
    release_unused();
    const MutexLock lock(mutex_);
    const uintptr_t address = staging_heap_->allocate(size).value_or(0);
    if (address != 0) return reinterpret_cast<std::byte*>(address);
    staging_returned_.wait_for(mutex_, kStagingPoll);
  }
}

void IsolatedWorld::release_unused() {
  std::vector<Held> gone;  // goes without the lock
  const MutexLock lock(mutex_);
  const auto unused =
      std::partition(held_.begin(), held_.end(), [this](const Held& held) {
        return !slot(held.index).done.reached(held.number);
      });
  gone.assign(std::make_move_iterator(unused),
              std::make_move_iterator(held_.end()));
  held_.erase(unused, held_.end());
}

void IsolatedWorld::hold_staging(std::shared_ptr<const Staging> staging,
                                 uint32_t index, uint64_t number) {
  const MutexLock lock(mutex_);
  held_.push_back({std::move(staging), index, number});
}

void IsolatedWorld::return_staging(std::byte* piece) {
  {
    const MutexLock lock(mutex_);
    staging_heap_->end_free(reinterpret_cast<uintptr_t>(piece));
  }
  staging_returned_.notify_all();
}

}  // namespace openreg
