// The front of the device allocator: which device and stream an allocation is
// for, and which block a pointer is. What one device does is in memory/.
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/registration.h"

#include <pthread.h>

#include <atomic>
#include <iterator>
#include <utility>

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/memory/device_cache.h"
#include "backend/runtime/memory/live_blocks.h"
#include "backend/runtime/memory/parking.h"
#include "backend/runtime/memory/pool_scopes.h"
#include "openreg/memory.h"

namespace torch_openreg {

using c10::CachingDeviceAllocator::DeviceStats;
using memory::Block;
using memory::DeviceCache;

// Thread-safe.
class OpenRegDeviceAllocator::Impl {
 public:
  Impl() {
    const int code = pthread_atfork(nullptr, nullptr, [] {
      OpenRegDeviceAllocator::get().impl_->forget_after_fork();
    });
    TORCH_INTERNAL_ASSERT(code == 0);
  }

  void* allocate(size_t size, const OpenRegStream& stream) {
    State& all = state();
    DeviceCache& cache = all.cache(stream.device_index());
    const OpenRegMemPool* const pool =
        memory::pool_in_use(stream.device_index());
    if (Block* const block = all.parking.take({&cache, size, stream.id()})) {
      if (is_live(block) && is_of(block, pool) && may_park(cache)) {
        block->parked.store(false, std::memory_order_relaxed);
        all.parking.count_reuse(block);
        return block->ptr;
      }
      all.release(block);
    }
    Block* block = nullptr;
    if (C10_LIKELY(may_park(cache))) {
      all.parking.drain_others();
      block = cache.take(size, stream, pool, all.parking.parked_of(cache));
    }
    if (block == nullptr) {
      all.parking.drain();
      block = cache.allocate(size, stream, pool);
    }
    all.live.insert(block);
    return block->ptr;
  }

  // Whether `ptr` was a live block.
  bool release(void* ptr) noexcept {
    State* const all = state_.load(std::memory_order_acquire);
    Block* block = all != nullptr ? all->live.find(ptr) : nullptr;
    // The memory of a parent is the parent's.
    if (block == nullptr) return forked_;
    if (block->parked.load(std::memory_order_relaxed)) return false;
    if (block->other_users.empty() && !block->segment->pool->large() &&
        may_park(*block->segment->cache)) {
      block->parked.store(true, std::memory_order_relaxed);
      block = all->parking.park(block);
    }
    if (block != nullptr) all->release(block);
    return true;
  }

  void record_stream(const void* ptr, const OpenRegStream& stream) {
    Block* const block = state().live.find(ptr);
    if (block != nullptr) block->segment->cache->record_stream(block, stream);
  }

  // For everybody but allocations and frees: nothing is parked any more.
  DeviceCache& cache(c10::DeviceIndex device) {
    const c10::DeviceIndex index = resolve_device(device);
    state().parking.drain();
    return state().cache(index);
  }

  template <typename Function>
  void for_each_cache(Function function) {
    state().parking.drain();
    for (const auto& cache : state().caches) function(*cache);
  }

  // Does not begin anything: the end of a memory pool comes here, maybe in a
  // forked child.
  void empty_pool(const c10::MempoolId_t& pool) {
    State* const all = state_.load(std::memory_order_acquire);
    if (all == nullptr) return;
    all->parking.drain();
    for (const auto& cache : all->caches) cache->empty(pool);
  }

  memory::HistorySettings history;

 private:
  struct State {
    explicit State(const memory::HistorySettings& history) {
      for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
        caches.push_back(std::make_unique<DeviceCache>(i, history));
      }
    }
    DeviceCache& cache(c10::DeviceIndex device) {
      return *caches[static_cast<size_t>(device)];
    }
    void release(Block* block) noexcept {
      block->parked.store(false, std::memory_order_relaxed);
      live.remove(block->ptr);
      block->segment->cache->release(block);
    }

    std::vector<std::unique_ptr<DeviceCache>> caches;  // one a device
    memory::LiveBlocks live;
    memory::Parking parking{[this](Block* block) { release(block); }};
  };

  // See Note [Parked blocks].
  static bool is_live(const Block* block) {
    return !block->segment->retired.load(std::memory_order_acquire);
  }
  static bool is_of(const Block* block, const OpenRegMemPool* pool) {
    const memory::PoolPair& owner = *block->segment->owner;
    return pool == nullptr ? owner.is_default() : owner.id == pool->id();
  }
  // Not while somebody wants to know of every step.
  bool may_park(const DeviceCache& cache) const {
    return !cache.has_pending() && !history.enabled() &&
           !c10::memoryProfilingEnabled();
  }

  // Made at first use, for then only it is known how many devices there are.
  State& state() {
    State* found = state_.load(std::memory_order_acquire);
    if (C10_LIKELY(found != nullptr)) return *found;
    auto made = std::make_unique<State>(history);
    if (state_.compare_exchange_strong(found, made.get())) {
      return *made.release();
    }
    return *found;
  }

  // The child has none of the parent's memory, and its locks may be held by
  // threads that do not exist here: it starts with nothing, and what there was
  // is leaked.
  void forget_after_fork() {
    state_ = nullptr;
    forked_ = true;
  }

  std::atomic<State*> state_{nullptr};
  std::atomic<bool> forked_{false};
};

OpenRegDeviceAllocator::OpenRegDeviceAllocator()
    : impl_(std::make_unique<Impl>()) {}

OpenRegDeviceAllocator::~OpenRegDeviceAllocator() = default;

OpenRegDeviceAllocator& OpenRegDeviceAllocator::get() {
  static auto& allocator = *new OpenRegDeviceAllocator;
  return allocator;
}

c10::DataPtr OpenRegDeviceAllocator::allocate(size_t size) {
  return allocate_on(current_device(), size);
}

c10::DataPtr OpenRegDeviceAllocator::allocate_on(c10::DeviceIndex device,
                                                 size_t size) {
  void* const ptr = size != 0
                        ? impl_->allocate(size, getCurrentOpenRegStream(device))
                        : nullptr;
  // See Note [A pointer is its own context].
  return {ptr, ptr, &delete_block,
          c10::Device(c10::DeviceType::PrivateUse1, device)};
}

c10::DeleterFnPtr OpenRegDeviceAllocator::raw_deleter() const {
  return &delete_block;
}

void OpenRegDeviceAllocator::delete_block(void* ptr) {
  if (ptr == nullptr || get().impl_->release(ptr)) return;
  // Nobody can receive an exception of a deleter.
  warn("OpenReg: ", ptr, " was freed, but is no live block");
}

void* OpenRegDeviceAllocator::raw_alloc(size_t size,
                                        const OpenRegStream& stream) {
  check_device_index(stream.device_index());
  return size != 0 ? impl_->allocate(size, stream) : nullptr;
}

void OpenRegDeviceAllocator::raw_delete(void* ptr) {
  if (ptr == nullptr) return;
  TORCH_CHECK(impl_->release(ptr), "invalid device pointer: ", ptr,
              " is no live block of the device allocator");
}

void OpenRegDeviceAllocator::copy_data(void* dst, const void* src,
                                       std::size_t count) const {
  if (count == 0) return;
  const OpenRegStream stream = getCurrentOpenRegStream();
  OPENREG_CHECK(
      orMemcpyAsync(dst, src, count, orMemcpyDefault, stream.handle()));
  for (const void* ptr : {static_cast<const void*>(dst), src}) {
    orPointerAttributes attributes{};
    OPENREG_CHECK(orPointerGetAttributes(&attributes, ptr));
    if (attributes.type == orMemoryTypeDevice) continue;
    stream.synchronize();
    return;
  }
}

bool OpenRegDeviceAllocator::initialized() {
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    if (has_primary_context(i)) return true;
  }
  return false;
}

void OpenRegDeviceAllocator::emptyCache(c10::MempoolId_t pool) {
  if (pool != c10::MempoolId_t{0, 0}) {
    impl_->empty_pool(pool);
    return;
  }
  impl_->for_each_cache([](DeviceCache& cache) { cache.empty(); });
}

void OpenRegDeviceAllocator::forget_device(c10::DeviceIndex device) {
  impl_->cache(device).forget();
}

void OpenRegDeviceAllocator::recordStream(const c10::DataPtr& ptr,
                                          c10::Stream stream) {
  if (ptr.get() == nullptr) return;
  impl_->record_stream(ptr.get(), OpenRegStream(stream));
}

DeviceStats OpenRegDeviceAllocator::getDeviceStats(c10::DeviceIndex device) {
  return impl_->cache(device).stats();
}

void OpenRegDeviceAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  impl_->cache(device).reset_accumulated_stats();
}

void OpenRegDeviceAllocator::resetPeakStats(c10::DeviceIndex device) {
  impl_->cache(device).reset_peak_stats();
}

std::pair<size_t, size_t> OpenRegDeviceAllocator::getMemoryInfo(
    c10::DeviceIndex device) {
  const DeviceScope scope(resolve_device(device));
  std::pair<size_t, size_t> info;
  OPENREG_CHECK(orMemGetInfo(&info.first, &info.second));
  return info;
}

void OpenRegDeviceAllocator::set_memory_fraction(double fraction,
                                                 c10::DeviceIndex device) {
  TORCH_CHECK(fraction >= 0 && fraction <= 1, "Invalid fraction:", fraction,
              ". Please set within [0, 1].");
  impl_->cache(device).set_fraction(fraction);
}

double OpenRegDeviceAllocator::memory_fraction(c10::DeviceIndex device) {
  return impl_->cache(device).fraction();
}

// A segment is an allocation of the driver, which can say it for any address.
std::pair<void*, size_t> OpenRegDeviceAllocator::base_allocation(void* ptr) {
  orPointerAttributes attributes{};
  OPENREG_CHECK(orPointerGetAttributes(&attributes, ptr));
  TORCH_CHECK(attributes.type == orMemoryTypeDevice,
              "invalid device pointer: ", ptr);
  return {attributes.base, attributes.size};
}

void OpenRegDeviceAllocator::record_history(
    bool enabled, c10::CachingDeviceAllocator::CreateContextFn make_context,
    size_t max_entries, c10::CachingDeviceAllocator::RecordContext when,
    bool clear_history) {
  impl_->history.set(enabled, make_context, when);
  // From here on nothing is parked.
  impl_->for_each_cache([&](DeviceCache& cache) {
    cache.restart_trace(max_entries, enabled && !clear_history);
  });
}

bool OpenRegDeviceAllocator::is_recording_history() const {
  return impl_->history.enabled();
}

MemorySnapshot OpenRegDeviceAllocator::snapshot() {
  MemorySnapshot result;
  impl_->for_each_cache([&](DeviceCache& cache) {
    DeviceCache::Snapshot part = cache.snapshot();
    std::move(part.segments.begin(), part.segments.end(),
              std::back_inserter(result.segments));
    impl_->history.convert_times(part.trace);
    result.traces.push_back(std::move(part.trace));
  });
  return result;
}

void register_device_allocator() {
  c10::SetAllocator(c10::DeviceType::PrivateUse1,
                    &OpenRegDeviceAllocator::get());
}

}  // namespace torch_openreg
