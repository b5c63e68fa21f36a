// The memory of a queue: commands and their payloads one after another in
// blocks that are used again and again, so that a launch allocates nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/command.h"

namespace openreg {

// Payloads start at multiples of this: a promise of openreg/kernel.h.
inline constexpr size_t kPayloadAlignment = 16;

// A list with one end for producers and one for the consumer. Each end is used
// by one thread at a time (the owner's locks see to that); the two ends need no
// lock between them, if the owner tells the consumer of a new entry by a
// releasing store that the consumer acquires.
class CommandBuffer {
 public:
  struct Chunk;

  struct Entry {
    Entry* next = nullptr;
    Chunk* chunk = nullptr;
    Command command;
    Completion* completion = nullptr;
    size_t payload_size = 0;

    Payload payload() const {
      return {reinterpret_cast<const std::byte*>(this) + kHeader, payload_size};
    }
  };

  CommandBuffer();
  // Drops what was not consumed.
  ~CommandBuffer();
  CommandBuffer(const CommandBuffer&) = delete;
  CommandBuffer& operator=(const CommandBuffer&) = delete;

  // Producer: adds an entry and copies the payload, aligned to 16 bytes.
  // Throws std::bad_alloc and changes nothing if there is no memory.
  void push(Command&& command, Payload payload, Completion* completion);

  // Consumer: the oldest entry, which must exist; and its removal.
  Entry& front() { return *last_->next; }
  void pop();

  // Bytes that are in the list. Any thread.
  size_t pending_bytes() const {
    // In this order: what was popped had been pushed before.
    const size_t popped = popped_.load(std::memory_order_acquire);
    return pushed_.load(std::memory_order_relaxed) - popped;
  }

 private:
  static constexpr size_t round_up(size_t size) {
    return (size + kPayloadAlignment - 1) / kPayloadAlignment *
           kPayloadAlignment;
  }
  static const size_t kHeader;

  // Makes room for `bytes` at the tail.
  std::byte* reserve(size_t bytes);
  Chunk* take_chunk(size_t bytes);
  void return_chunk(Chunk* chunk);

  // Producer's end.
  Chunk* tail_ = nullptr;
  Entry* newest_ = nullptr;

  // Consumer's end: the entry that was consumed last, which leads to the next.
  Entry* last_ = nullptr;

  std::atomic<Chunk*> spare_{nullptr};  // from the consumer to the producer
  std::atomic<size_t> pushed_{0};
  std::atomic<size_t> popped_{0};
};

inline constexpr size_t CommandBuffer::kHeader =
    CommandBuffer::round_up(sizeof(CommandBuffer::Entry));

}  // namespace openreg
