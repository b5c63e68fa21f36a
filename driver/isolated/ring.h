// The ring of commands between a program and one device process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/command.h"
#include "core/thread_safety.h"
#include "isolated/protocol.h"

namespace openreg {

// The bytes of a ring, mapped twice in a row, so that what wraps around lies in
// one piece. Movable, not copyable.
class RingMapping {
 public:
  RingMapping() = default;
  RingMapping(RingMapping&& other) noexcept;
  RingMapping& operator=(RingMapping&& other) noexcept;
  ~RingMapping();

  // Maps the ring of a life. Empty if the system refuses.
  static RingMapping map(int life_fd);

  explicit operator bool() const { return data_ != nullptr; }
  // The bytes at a position that only grows.
  std::byte* at(uint64_t position) const {
    return data_ + position % wire::kRingBytes;
  }

 private:
  std::byte* data_ = nullptr;
};

// The program's end. Thread-safe.
class RingWriter {
 public:
  RingWriter(RingMapping mapping, wire::Control& control)
      : mapping_(std::move(mapping)), control_(control) {}

  // Adds a command; fills in the sizes. Waits while the ring is full; there is
  // room set aside for commands without a payload. Stores where the command
  // ends in `end`, if given. Returns false if it was closed.
  bool push(wire::Header header, Payload payload, uint64_t* end = nullptr);

  // Waits until the device has taken everything before a position.
  void wait_until_taken(uint64_t end) const { control_.consumed.wait(end); }

  bool is_half_full() const {
    return control_.produced.value() - control_.consumed.value() >
           wire::kRingBytes / 2;
  }

  // Wakes those who wait and refuses commands from then on. The reader has
  // ended.
  void close();

 private:
  // Waits until so many bytes are free, without the lock.
  bool wait_for_room(size_t bytes) REQUIRES(mutex_);

  const RingMapping mapping_;
  wire::Control& control_;
  std::atomic<bool> closed_{false};

  Mutex mutex_;
  uint64_t produced_ GUARDED_BY(mutex_) = 0;
  uint64_t consumed_ GUARDED_BY(mutex_) = 0;  // as last seen
};

// The device's end; trusts nothing that it reads. For one thread.
class RingReader {
 public:
  RingReader(RingMapping mapping, wire::Control& control)
      : mapping_(std::move(mapping)), control_(control) {}

  // Whether a command is there.
  bool has_next() const { return control_.produced.value() != consumed_; }

  // Waits for the next command, at most for `limit`; first awake for a while.
  bool wait(std::chrono::nanoseconds limit);
  // Ends a wait; from any thread.
  void wake() { control_.produced.wake(); }

  // Copies the next command's header out of the ring, and says where its
  // payload is; it stays there until drop(). Returns false if the ring does not
  // hold a command: all that is in it is to be dropped.
  bool read(wire::Header* header, std::span<const std::byte>* payload);
  void drop();
  // Drops everything.
  void drop_all();

 private:
  const RingMapping mapping_;
  wire::Control& control_;
  uint64_t consumed_ = 0;
  size_t current_ = 0;  // bytes of the command that was read
};

}  // namespace openreg
