// The program's end of what it shares with one life of a device process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/command.h"
#include "core/failure_state.h"
#include "core/shared_memory.h"
#include "core/thread_safety.h"
#include "isolated/protocol.h"
#include "isolated/ring.h"

namespace openreg {

// Thread-safe. Lives until nobody uses the life's memory any more; the control
// block stays for ever, because whoever asks for failures takes no lock.
class Channel final : public FailureSource,
                      public std::enable_shared_from_this<Channel> {
 public:
  // Makes the memory. Null if the system does not give it.
  static std::shared_ptr<Channel> create();
  ~Channel() override;

  int fd() const { return life_.fd(); }
  const wire::Control& control() const { return control_; }

  // What starts the device process; called once. If it fails, it has closed the
  // channel.
  void set_starter(std::function<void()> starter) {
    const MutexLock lock(start_mutex_);
    starter_ = std::move(starter);
  }

  bool is_started() const { return started_.load(std::memory_order_acquire); }
  // To be called before push(), without a lock that the starter might want.
  void ensure_started() {
    if (!is_started()) [[unlikely]]
      start();
  }

  // Sends a command. Waits while the ring is full. False if the device is gone.
  bool push(const wire::Header& header, Payload payload,
            uint64_t* end = nullptr) {
    return writer_->push(header, payload, end);
  }
  void wait_until_taken(uint64_t end) const { writer_->wait_until_taken(end); }
  // The same for what the device need not know before it has work to do: does
  // not start it, unless too much would pile up.
  bool push_lazily(const wire::Header& header) {
    if (!is_started() && writer_->is_half_full()) start();
    return push(header, {});
  }
  // The device has ended: wakes those who wait for room.
  void close() { writer_->close(); }
  // Nor will there be another one in this life: gives the memory back. Who is
  // late finds no answers.
  void drop() { life_.drop(); }

  // Takes a reply slot, waiting until there is one.
  uint32_t take_reply();
  void return_reply(uint32_t index);
  wire::Reply& reply(uint32_t index) const;

  // A stamp that the device can write; null if there are too many. Keeps the
  // channel.
  std::shared_ptr<Timestamp> create_stamp();
  uint32_t index_of(const Timestamp& stamp) const;

  bool has_news() const override {
    return control_.failures.load(std::memory_order_acquire) !=
           failures_seen_.load(std::memory_order_acquire);
  }
  void next(const std::function<void(const Status&)>& report) override;

 private:
  Channel(SharedMemory life, wire::Control& control, RingMapping ring);

  void start();
  // The next failure that was not read.
  Status read_next();

  SharedMemory life_;
  wire::Control& control_;
  std::unique_ptr<RingWriter> writer_;

  std::atomic<bool> started_{false};
  Mutex start_mutex_;
  std::function<void()> starter_ GUARDED_BY(start_mutex_);

  std::atomic<uint64_t> failures_seen_{0};
  bool broken_seen_ = false;  // for the one who calls next()

  Mutex mutex_;
  ConditionVariable reply_returned_;
  std::vector<uint32_t> free_replies_ GUARDED_BY(mutex_);
  uint32_t used_replies_ GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> free_stamps_ GUARDED_BY(mutex_);
  uint32_t used_stamps_ GUARDED_BY(mutex_) = 0;
};

}  // namespace openreg
