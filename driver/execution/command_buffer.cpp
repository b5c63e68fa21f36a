#include "execution/command_buffer.h"

#include <cstring>
#include <new>
#include <utility>

#include "core/counters.h"

namespace openreg {

namespace {

constexpr size_t kChunkBytes = size_t{32} << 10;

}  // namespace

struct alignas(16) CommandBuffer::Chunk {
  size_t capacity = 0;
  size_t used = 0;  // of the producer

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }

  static Chunk* create(size_t capacity) {
    void* memory = ::operator new(sizeof(Chunk) + capacity,
                                  std::align_val_t{alignof(Chunk)});
    counters().queue_chunks.fetch_add(1, std::memory_order_relaxed);
    return new (memory) Chunk{capacity, 0};
  }
  static void destroy(Chunk* chunk) {
    counters().queue_chunks.fetch_sub(1, std::memory_order_relaxed);
    ::operator delete(chunk, std::align_val_t{alignof(Chunk)});
  }
};

// The list starts with an entry that counts as consumed.
CommandBuffer::CommandBuffer() {
  tail_ = Chunk::create(kChunkBytes);
  newest_ = last_ = new (reserve(kHeader)) Entry;
  last_->chunk = tail_;
}

CommandBuffer::~CommandBuffer() {
  while (last_->next != nullptr) pop();
  Chunk::destroy(last_->chunk);
  if (Chunk* spare = spare_.load(std::memory_order_acquire)) {
    Chunk::destroy(spare);
  }
}

std::byte* CommandBuffer::reserve(size_t bytes) {
  if (tail_->capacity - tail_->used < bytes) tail_ = take_chunk(bytes);
  std::byte* const place = tail_->data() + tail_->used;
  tail_->used += bytes;
  return place;
}

CommandBuffer::Chunk* CommandBuffer::take_chunk(size_t bytes) {
  Chunk* spare = spare_.exchange(nullptr, std::memory_order_acq_rel);
  if (spare != nullptr && spare->capacity >= bytes) {
    spare->used = 0;
    return spare;
  }
  if (spare != nullptr) Chunk::destroy(spare);
  return Chunk::create(bytes > kChunkBytes ? bytes : kChunkBytes);
}

void CommandBuffer::return_chunk(Chunk* chunk) {
  if (chunk->capacity > kChunkBytes) {
    Chunk::destroy(chunk);
    return;
  }
  Chunk* before = spare_.exchange(chunk, std::memory_order_acq_rel);
  if (before != nullptr) Chunk::destroy(before);
}

void CommandBuffer::push(Command&& command, Payload payload,
                         Completion* completion) {
  const size_t bytes = kHeader + round_up(payload.size());
  std::byte* const place = reserve(bytes);
  auto* const entry = new (place)
      Entry{nullptr, tail_, std::move(command), completion, payload.size()};
  if (!payload.empty()) {
    std::memcpy(place + kHeader, payload.data(), payload.size());
  }
  newest_->next = entry;
  newest_ = entry;
  pushed_.fetch_add(bytes, std::memory_order_relaxed);
}

void CommandBuffer::pop() {
  Entry* const entry = last_->next;
  // Let go of what the command held; the entry itself stays until the next one
  // is consumed, because the producer may still link to it.
  entry->command = HostCommand{};
  popped_.fetch_add(kHeader + round_up(entry->payload_size),
                    std::memory_order_release);
  Chunk* const chunk = last_->chunk;
  last_ = entry;
  if (chunk != entry->chunk) return_chunk(chunk);
}

}  // namespace openreg
