#include "isolated/ring.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/futex.h"
#include "core/process_order.h"

namespace openreg {

namespace {

// How long the reader looks for commands before it sleeps: first without
// leaving the processor, about 5 us; then leaving it to others who want it, the
// program among them.
constexpr int kSpins = 100;
constexpr int kYields = 100;

// What stays free for marks and waits, whose callers are promised not to be
// blocked by work that is sent.
constexpr size_t kReserve = size_t{64} << 10;

}  // namespace

RingMapping::RingMapping(RingMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)) {}

RingMapping& RingMapping::operator=(RingMapping&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

RingMapping::~RingMapping() {
  if (data_ != nullptr) munmap(data_, 2 * wire::kRingBytes);
}

RingMapping RingMapping::map(int life_fd) {
  RingMapping result;
  void* const range = mmap(nullptr, 2 * wire::kRingBytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return result;
  result.data_ = static_cast<std::byte*>(range);
  for (const size_t offset : {size_t{0}, wire::kRingBytes}) {
    if (mmap(result.data_ + offset, wire::kRingBytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, life_fd,
             static_cast<off_t>(wire::kRingOffset)) == MAP_FAILED) {
      return {};
    }
  }
  madvise(result.data_, 2 * wire::kRingBytes, MADV_DONTFORK);
  return result;
}

bool RingWriter::push(wire::Header header, Payload payload, uint64_t* end) {
  const size_t bytes = wire::record_size(payload.size());
  const size_t needed = payload.empty() ? bytes : bytes + kReserve;
  const MutexLock lock(mutex_);
  if (wire::kRingBytes - (produced_ - consumed_) < needed) [[unlikely]] {
    if (!wait_for_room(needed)) return false;
  }
  if (closed_.load(std::memory_order_relaxed)) return false;
  header.size = static_cast<uint32_t>(bytes);
  header.payload_size = static_cast<uint32_t>(payload.size());
  std::byte* const place = mapping_.at(produced_);
  std::memcpy(place, &header, sizeof header);
  if (!payload.empty()) {
    std::memcpy(place + sizeof header, payload.data(), payload.size());
  }
  produced_ += bytes;
  before_other_process();
  if (end != nullptr) *end = produced_;
  control_.produced.advance(produced_);
  return true;
}

bool RingWriter::wait_for_room(size_t bytes) {
  for (;;) {
    if (closed_.load(std::memory_order_acquire)) return false;
    // The device can't have taken more than there was, unless it has gone mad.
    consumed_ = std::min(control_.consumed.value(), produced_);
    if (wire::kRingBytes - (produced_ - consumed_) >= bytes) return true;
    const uint64_t target = produced_ + bytes - wire::kRingBytes;
    mutex_.unlock();
    control_.consumed.wait(target);
    mutex_.lock();
  }
}

void RingWriter::close() {
  closed_.store(true, std::memory_order_release);
  control_.consumed.advance(UINT64_MAX);
}

bool RingReader::wait(std::chrono::nanoseconds limit) {
  if (has_next()) return true;
  for (int i = 0; i < kSpins; ++i) {
    if (has_next()) return true;
    spin_pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (has_next()) return true;
    sched_yield();
  }
  return control_.produced.wait_for(consumed_ + 1, limit);
}

bool RingReader::read(wire::Header* header,
                      std::span<const std::byte>* payload) {
  const uint64_t filled = control_.produced.value() - consumed_;
  current_ = 0;
  if (filled < sizeof *header || filled > wire::kRingBytes) return false;
  const std::byte* const place = mapping_.at(consumed_);
  std::memcpy(header, place, sizeof *header);
  if (header->size < sizeof *header || header->size > filled ||
      header->size % wire::kGrain != 0 ||
      header->payload_size > header->size - sizeof *header) {
    return false;
  }
  current_ = header->size;
  *payload = {place + sizeof *header, header->payload_size};
  return true;
}

void RingReader::drop() {
  consumed_ += current_;
  control_.consumed.advance(consumed_);
}

void RingReader::drop_all() {
  consumed_ = control_.produced.value();
  control_.consumed.advance(consumed_);
}

}  // namespace openreg
