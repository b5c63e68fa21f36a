// Memory pools: parts of the device memory that only those get who ask for
// them, as torch.cuda.MemPool.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <atomic>
#include <memory>

#include "backend/export.h"

namespace torch_openreg {

struct MemPoolOptions {
  // Its unused memory serves an allocation outside all pools that would fail.
  bool use_on_oom = false;
  // Segments are never cut: each serves one allocation at a time.
  bool no_split = false;
};

// A pool has segments of its own on every device. Memory that is allocated in
// one of its scopes comes from them, and goes back to them whenever it is
// freed: another pool, and who uses none, never gets it.
//
// It lives as long as somebody holds it or a scope lasts. Until then it keeps
// its segments. Memory may outlive it: what is in use at its end returns to the
// device when the cache is emptied after its release, or when memory is short.
// Thread-safe.
class TORCH_OPENREG_API OpenRegMemPool
    : public std::enable_shared_from_this<OpenRegMemPool> {
 public:
  static std::shared_ptr<OpenRegMemPool> make(
      const MemPoolOptions& options = {});

  // Gives the unused segments back; waits for the devices that have some.
  ~OpenRegMemPool();
  OpenRegMemPool(const OpenRegMemPool&) = delete;
  OpenRegMemPool& operator=(const OpenRegMemPool&) = delete;

  // Unique in the process; the memory outside all pools has {0, 0}.
  const c10::MempoolId_t& id() const { return id_; }
  const MemPoolOptions& options() const { return options_; }

  // How many hold it, its scopes counted in.
  long use_count() const { return weak_from_this().use_count(); }

 private:
  OpenRegMemPool(c10::MempoolId_t id, const MemPoolOptions& options)
      : id_(id), options_(options) {}

  const c10::MempoolId_t id_;
  const MemPoolOptions options_;
};

// From its creation on, allocations of the calling thread on one device are
// `pool`'s, until it ends. The innermost scope counts; other threads are not
// concerned. Any thread may end it. A thread that itself ends before its scopes
// keeps their pools alive. Thread-safe.
class TORCH_OPENREG_API OpenRegMemPoolScope {
 public:
  // A negative device is the current one. Throws c10::AcceleratorError if there
  // is no such device.
  OpenRegMemPoolScope(std::shared_ptr<OpenRegMemPool> pool,
                      c10::DeviceIndex device);
  ~OpenRegMemPoolScope() { leave(); }
  OpenRegMemPoolScope(const OpenRegMemPoolScope&) = delete;
  OpenRegMemPoolScope& operator=(const OpenRegMemPoolScope&) = delete;

  // Ends it early. If it was the last to hold the pool, that ends too.
  void leave() noexcept;

 private:
  const std::shared_ptr<std::atomic<bool>> ended_;
};

// The pool of the calling thread's innermost scope on `device`; null if there
// is none. Lives at least until the thread looks again.
TORCH_OPENREG_API const OpenRegMemPool* current_mem_pool(
    c10::DeviceIndex device) noexcept;

}  // namespace torch_openreg
