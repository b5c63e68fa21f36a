#include "backend/runtime/mem_pool.h"

#include <c10/util/Exception.h>

#include <utility>

#include "backend/runtime/check.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/memory/pool_scopes.h"

namespace torch_openreg {

std::atomic<int64_t> memory::scope_count{0};

namespace {

// Note [Scopes of memory pools]
// Each thread has a list of its scopes, the innermost first, that it alone
// reads and changes, and all threads count theirs together: as long as there is
// none, an allocation looks at that number only. Other threads can end a scope
// as well. They only mark it, and the owner drops it when it comes by; so what
// the owner has found stays valid meanwhile.
struct Entry {
  c10::DeviceIndex device;
  std::shared_ptr<OpenRegMemPool> pool;
  std::shared_ptr<const std::atomic<bool>> ended;
  Entry* outer;
};

// No object with a destructor: memory is allocated at the end of threads too.
thread_local Entry* innermost = nullptr;

void drop_ended() noexcept {
  Entry* dropped = nullptr;
  for (Entry** place = &innermost; *place != nullptr;) {
    Entry* const entry = *place;
    if (!entry->ended->load(std::memory_order_acquire)) {
      place = &entry->outer;
      continue;
    }
    *place = entry->outer;
    entry->outer = dropped;
    dropped = entry;
  }
  // Only now: the end of a pool may allocate, in a handler of warnings.
  while (dropped != nullptr) {
    memory::scope_count.fetch_sub(1, std::memory_order_relaxed);
    const std::unique_ptr<Entry> entry(dropped);
    dropped = entry->outer;
  }
}

}  // namespace

std::shared_ptr<OpenRegMemPool> OpenRegMemPool::make(
    const MemPoolOptions& options) {
  static std::atomic<c10::CaptureId_t> count{0};
  return std::shared_ptr<OpenRegMemPool>(
      new OpenRegMemPool({0, ++count}, options));
}

OpenRegMemPool::~OpenRegMemPool() {
  try {
    OpenRegDeviceAllocator::get().emptyCache(id_);
  } catch (const c10::Error& error) {
    // The memory is not lost: emptying the cache gives it back.
    warn(error.what_without_backtrace());
  }
}

OpenRegMemPoolScope::OpenRegMemPoolScope(std::shared_ptr<OpenRegMemPool> pool,
                                         c10::DeviceIndex device)
    : ended_(std::make_shared<std::atomic<bool>>(false)) {
  TORCH_CHECK_VALUE(pool != nullptr, "a scope needs a memory pool");
  const c10::DeviceIndex index = resolve_device(device);
  innermost = new Entry{index, std::move(pool), ended_, innermost};
  memory::scope_count.fetch_add(1, std::memory_order_relaxed);
}

void OpenRegMemPoolScope::leave() noexcept {
  ended_->store(true, std::memory_order_release);
  drop_ended();
}

const OpenRegMemPool* current_mem_pool(c10::DeviceIndex device) noexcept {
  if (C10_LIKELY(innermost == nullptr)) return nullptr;
  drop_ended();
  for (const Entry* entry = innermost; entry != nullptr; entry = entry->outer) {
    if (entry->device == device) return entry->pool.get();
  }
  return nullptr;
}

}  // namespace torch_openreg
