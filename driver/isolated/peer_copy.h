// Copies and fills that use the memory of other devices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "core/queue.h"
#include "core/thread_safety.h"

namespace openreg {

class RemoteQueue;

// The queues on other devices that work for one queue, and wait for it as it
// waits for them; see Note [Copies]. Thread-safe.
class PeerCopy {
 public:
  // Works for `queue`, which owns this object.
  explicit PeerCopy(RemoteQueue& queue) : queue_(queue) {}

  // Has another device run a command, in the order of the queue. As
  // Queue::submit.
  Status submit(Context& peer, Command&& command, Submission& submission);

  // Copies between this device and another. Stores the number at which the
  // queue has done it.
  Status copy_between(const CopyCommand& command, uint64_t* sequence);

  // Refuses new work; what was sent still runs.
  void retire();

 private:
  // The queue on a device. Null if there are too many.
  std::shared_ptr<RemoteQueue> queue_on(const Context& peer);

  RemoteQueue& queue_;

  Mutex mutex_;
  std::map<const Context*, std::shared_ptr<RemoteQueue>> queues_
      GUARDED_BY(mutex_);
};

}  // namespace openreg
