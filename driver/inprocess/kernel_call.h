// A kernel that runs in this process: the context that it is given.
#pragma once

#include <atomic>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/command.h"
#include "core/context.h"
#include "inprocess/execution_places.h"
#include "openreg/kernel.h"

namespace openreg {

// One call of one kernel. Used by the thread that runs the kernel only.
class KernelCall : public orKernelContext {
 public:
  // `completion` may be null. `cancelled` is set when the kernel should end.
  KernelCall(Context& device_context, ExecutionPlaces& places, int priority,
             const std::atomic<bool>& cancelled, Payload payload,
             Completion* completion);

  // Takes a place on the device, or brings one that is taken already, runs the
  // kernel, and leaves the place. Returns the kernel's failure with its name.
  Status run(const Kernel& kernel, bool has_place);

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
  orError_t keep_failure(orError_t code, std::string message);
  orError_t keep_reply(const void* data, size_t bytes);
  // Calls the kernel's code. An exception that leaves it is a failure.
  orError_t call_code(const Kernel& kernel);
  // What the kernel's return value means.
  Status result(const Kernel& kernel, orError_t returned) const;

  Context& context_;
  ExecutionPlaces& places_;
  const int priority_;
  const std::atomic<bool>& cancelled_;
  Completion* const completion_;
  Status failure_;
  std::vector<Visit> visits_;  // at most one for each peer
};

}  // namespace openreg
