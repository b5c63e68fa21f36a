// The queues of one life of a device.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "core/queue.h"
#include "core/thread_safety.h"

namespace openreg {

// Keeps every queue until its stream is destroyed and its work is done.
// Thread-safe. Threads are waited for without the lock.
class QueueList {
 public:
  // Adds a queue; `blocking` if it orders itself with the default stream. A
  // list that was closed cancels the queue instead.
  void add(std::shared_ptr<Queue> queue, bool blocking);

  // Lets a queue go: what it holds still runs.
  void retire(const Queue& queue);

  // Waits until everything that was submitted before is done.
  void wait();

  // Ends the queues that were let go and are done. Other calls do that as well.
  void tidy();

  // Whether any queue orders itself with the default stream; and how far those
  // must come that hold work now.
  bool has_blocking() const {
    return blocking_.load(std::memory_order_acquire) > 0;
  }
  std::vector<Fence> busy_blocking();

  // How many queues there are, and how much they hold that is not done.
  struct Load {
    size_t queues;
    uint64_t commands;
  };
  Load load();

  // Drops all work, waits for what runs, and ends every queue.
  void close();

  // The same at the end of the program, for at most `limit`. Returns whether
  // nothing runs any more.
  bool stop(std::chrono::nanoseconds limit);

 private:
  struct Entry {
    std::shared_ptr<Queue> queue;
    bool blocking;
    bool retired = false;
  };
  using Queues = std::vector<std::shared_ptr<Queue>>;

  Queues all();
  // Takes out the retired queues that are done.
  Queues take_finished() REQUIRES(mutex_);
  // Ends the threads of finished queues. Somebody may still hold a queue for
  // its timeline. Requires that mutex_ is not held.
  static void end(const Queues& finished);

  std::atomic<int> blocking_{0};

  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace openreg
