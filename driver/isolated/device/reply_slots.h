// Where a device process leaves the results that somebody waits for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/command.h"
#include "isolated/protocol.h"

namespace openreg {

// One completion for each reply slot. Thread-safe.
class ReplySlots {
 public:
  explicit ReplySlots(wire::Reply* replies);

  // Prepares the reply of slot `index`, with room for `capacity` bytes in the
  // slot. Null if there is no such slot, or it is in use.
  Completion* open(uint32_t index, size_t capacity);
  // Gives the one that open() returned back, unused.
  static void cancel(Completion& completion);

  // The bytes of a slot.
  std::byte* bytes(uint32_t index) const {
    return replies_[index].bytes.data();
  }

 private:
  struct Slot : Completion {
    wire::Reply* shared = nullptr;
    std::atomic<bool> is_open{false};
  };

  static void publish(Completion& completion);

  wire::Reply* const replies_;
  std::array<Slot, wire::kReplies> slots_;
};

}  // namespace openreg
