// Blocks that were given back while other streams than their own may still use
// them.
#pragma once

#include <c10/util/FunctionRef.h>

#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "backend/runtime/event.h"
#include "backend/runtime/memory/block.h"

namespace torch_openreg::memory {

// Each block waits for one event on each of the streams. Events are used again,
// so that in the long run none is created. Guarded by the lock of its cache;
// nothing here waits for the device but `await`, which needs no lock.
class PendingFrees {
 public:
  // What a block waits for.
  struct Wait {
    OpenRegStream stream;
    Block* block;
    OpenRegEvent event;
    bool recorded = true;      // false: the event could not be recorded yet
    bool stream_gone = false;  // and never will be
  };
  using Done = c10::function_ref<void(Block*)>;

  bool empty() const { return queues_.empty() && unrecorded_.empty(); }

  // Lets `block` wait for its other users. Where the driver refuses to record,
  // the block stays here until a later call can do so. The driver reports a
  // failure of the device once: if this was it, returns the message, which the
  // caller must not lose; else an empty one.
  [[nodiscard]] std::string add(Block* block);

  // Calls `done` for every block that has nothing left to wait for. Throws
  // c10::AcceleratorError for an earlier failure of a device, and can be called
  // again after it.
  void poll(Done done);

  // To wait for everything without the lock: take it all out, await it, and
  // finish it with the lock held again; or, if await throws, put it back.
  std::vector<Wait> take();
  static void await(const std::vector<Wait>& waits);
  void finish(std::vector<Wait> waits, Done done);
  void put_back(std::vector<Wait> waits);

  // The device was reset: forgets its events. Others may still be waited for.
  void forget_events(c10::DeviceIndex device) { idle_.erase(device); }

 private:
  struct Queue {
    OpenRegStream stream;
    std::deque<Wait> waits;
  };

  OpenRegEvent record(const OpenRegStream& stream);
  void enqueue(Wait wait);
  void retry();
  void poll(Queue& queue, Done done);
  void finish(Wait wait, Done done);

  std::list<Queue> queues_;       // none is empty
  std::vector<Wait> unrecorded_;  // in no queue
  std::map<c10::DeviceIndex, std::vector<OpenRegEvent>> idle_;
};

}  // namespace torch_openreg::memory
