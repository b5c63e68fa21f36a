// A kernel that runs in this process: the context that it is given.
#pragma once

#include <atomic>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/command.h"
#include "core/context.h"
#include "execution/execution_places.h"
#include "openreg/kernel.h"

namespace openreg {

// One call of one kernel. Used by the thread that runs the kernel only.
class KernelCall : public orKernelContext {
 public:
  // `completion` may be null. `cancelled` is set when the kernel should end.
  KernelCall(Context& device_context, ExecutionPlaces& places, int priority,
             const std::atomic<bool>& cancelled, Payload payload,
             Completion* completion);

  // Leaves the place.
  ~KernelCall() { leave_place(); }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  // Takes a place on the device, waiting for it; or owns from now on one that
  // the caller has taken.
  void enter(bool has_place) {
    has_place_ = has_place;
    take_place();
  }

  // Runs the kernel. Returns its failure with its name.
  Status run(const Kernel& kernel) { return result(kernel, call_code(kernel)); }

 private:
  struct Visit {
    const Context* peer;
    std::shared_lock<std::shared_mutex> lock;
  };

  struct Entry;
  static const orKernelInterface kInterface;

  void* translate_bytes(const void* pointer, size_t bytes);
  void* find_bytes(const void* pointer, size_t bytes);
  void* find_peer_bytes(Context& peer, const void* pointer, size_t bytes);
  // Keeps a peer's memory in place until the kernel ends.
  bool visit(const Context& peer);
  bool is_cancelled() const;
  // Takes and leaves a place, if that is a change.
  void take_place();
  void leave_place();
  orError_t keep_failure(orError_t code, std::string message);
  orError_t keep_reply(const void* data, size_t bytes);
  // Calls the kernel's code. An exception that leaves it is a failure.
  orError_t call_code(const Kernel& kernel);
  // Turns the kernel's return value into a status.
  Status result(const Kernel& kernel, orError_t returned) const;

  Context& context_;
  ExecutionPlaces& places_;
  const int priority_;
  const std::atomic<bool>& cancelled_;
  Completion* const completion_;
  bool has_place_ = false;
  Status failure_;
  std::vector<Visit> visits_;  // at most one for each peer
};

}  // namespace openreg
