// The messages between a program and its device processes, and the shared
// memory that holds them. docs/isolated.md has a picture of it.
//
// Everything here is plain data of fixed size. Both sides are built from this
// file; a device of another version refuses to start.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/activity.h"
#include "core/counters.h"
#include "core/timeline.h"

namespace openreg::wire {

inline constexpr uint32_t kProtocolVersion = 1;

// The descriptors that a device process is started with, in this order.
enum StartFd { kLifeFd, kFencesFd, kPinnedFd, kStagingFd, kStartFds };

// The values that a device process gets at its start.
struct Start {
  uint32_t version;
  int32_t device;
  uint64_t epoch;
  uint64_t memory_base;  // addresses of the device's memory
  uint64_t memory_size;
  uint64_t memory_limit;  // bytes that may be allocated
  uint64_t pinned_base;   // where the program has its pinned memory
  uint64_t pinned_size;
  uint64_t staging_base;  // the same for staging
  uint64_t staging_size;
  uint32_t control_queue;  // the queue of requests about modules
  uint32_t errors;         // ErrorMode
};

enum class Kind : uint16_t {
  kNone,
  // The device itself; in the order of the ring. `queue` is not used.
  kAddMemory,     // address, size: memory was allocated
  kRemoveMemory,  // address: memory was freed
  kCreateQueue,   // priority; `queue` is its new number
  kRetireQueue,   // `queue` gets no more commands
  // Work, in the order of `queue`.
  kLaunch,  // module, kernel, capacity, reply address; payload: the arguments
  kCopy,    // dst, src, count; src 0: the payload; dst 0: the reply
  kFill,    // dst, count, value
  kHost,    // the program runs its next host function
  kWait,    // queue, number: waits for a point of any queue
  kStamp,   // index: writes the time
  // Requests, in the order of the control queue; each has a reply.
  kLoadModule,    // module; payload: strings, the path and then libraries that
                  // it needs
  kUnloadModule,  // module
  kFindKernel,    // module, kernel; payload: its name
  kPing,
  kLast = kPing,
};

enum Flags : uint16_t {
  kCheap = 1,  // may be run by the dispatcher
  kStaged =
      2,  // the payload is a StagedPayload: the bytes are in staging memory
  kShort = 4,  // may be run by the dispatcher if the queue's thread sleeps
  kKnownFlags = 7,
};

inline constexpr uint32_t kNoReply = UINT32_MAX;
// The capacity of a launch whose reply is dropped.
inline constexpr uint64_t kNoRoom = UINT64_MAX;
inline constexpr size_t kArguments = 4;

// A command begins with this; the payload follows, and room up to a multiple of
// kGrain.
struct Header {
  uint32_t size;  // in the ring, with header and payload
  Kind kind;
  uint16_t flags;
  uint32_t queue;
  uint32_t reply;   // a reply slot, or kNoReply
  uint64_t number;  // of the command in its queue
  uint32_t payload_size;
  uint32_t reserved;
  std::array<uint64_t, kArguments> arguments;
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

// A header without a payload, for which nobody waits.
constexpr Header make_header(Kind kind,
                             std::array<uint64_t, kArguments> arguments) {
  Header header{};
  header.kind = kind;
  header.reply = kNoReply;
  header.arguments = arguments;
  return header;
}

inline constexpr size_t kGrain = 64;
inline constexpr size_t kRingBytes = size_t{1} << 20;
// A longer payload is staged: the ring is never full for long.
inline constexpr size_t kMaxInRing = size_t{64} << 10;
inline constexpr size_t kMaxPayload = size_t{4} << 20;
// Long copies go in pieces of this size. The dispatcher may copy one by itself,
// which takes it about 50 us: a third thread would have to share a processor
// with the two that copy.
inline constexpr size_t kPiece = size_t{512} << 10;

struct StagedPayload {
  uint64_t address;
  uint64_t size;
};

inline constexpr size_t record_size(size_t payload) {
  return (sizeof(Header) + payload + kGrain - 1) / kGrain * kGrain;
}

// The result of a command that somebody waits for.
struct Reply {
  static constexpr uint32_t kUnanswered = 0;
  static constexpr uint32_t kAnswered = 1;

  std::atomic<uint32_t> state;
  int32_t code;   // orError_t
  uint32_t size;  // of the bytes: a reply, or the message of a failure
  uint32_t reserved;
  std::array<std::byte, (size_t{16} << 10) - 16> bytes;
};
static_assert(sizeof(Reply) == size_t{16} << 10);
inline constexpr uint32_t kReplies = 256;

// A failure of work that nobody waits for.
struct Report {
  int32_t code;
  uint32_t size;
  std::array<char, 4096 - 8> message;
};
inline constexpr uint64_t kReports = 8;

// The start of the memory of one life of a device.
struct Control {
  // The device has started; the program has checked nothing yet.
  std::atomic<uint32_t> version;

  // Bytes that were put into the ring and taken from it. A position in the ring
  // is this number modulo its size.
  alignas(64) Timeline produced;
  alignas(64) Timeline consumed;

  // Failures so far, those without room for their message included; and those
  // that the program has read. A sticky one has a place of its own.
  alignas(64) std::atomic<uint64_t> failures;
  std::atomic<uint64_t> failures_read;
  std::atomic<uint64_t> failures_kept;  // have a report
  std::atomic<uint32_t> is_broken;      // `broken` holds a sticky failure
  std::array<Report, kReports> reports;
  Report broken;

  alignas(64) Counters counters;

  // The kernel that was started last.
  alignas(64) Activity activity;
};

using StampWord = std::atomic<int64_t>;
inline constexpr uint32_t kStamps = 1u << 20;

// The memory of one life: control, replies, stamps, ring.
inline constexpr size_t kPage = 4096;
inline constexpr size_t kRepliesOffset =
    (sizeof(Control) + kPage - 1) / kPage * kPage;
inline constexpr size_t kStampsOffset =
    kRepliesOffset + kReplies * sizeof(Reply);
inline constexpr size_t kRingOffset =
    kStampsOffset + kStamps * sizeof(StampWord);
inline constexpr size_t kLifeBytes = kRingOffset + kRingBytes;
static_assert(kRingOffset % kPage == 0 && kRingBytes % kPage == 0);

// The state of a queue, as all processes see it.
struct alignas(64) FenceSlot {
  Timeline done;
  Timeline host_requested;  // host functions that the queue has come to
  Timeline host_done;       // that have run
};
static_assert(sizeof(FenceSlot) == 128);
inline constexpr uint32_t kFenceSlots = 1u << 16;
inline constexpr size_t kFencesBytes = kFenceSlots * sizeof(FenceSlot);

inline constexpr size_t kStagingBytes = size_t{64} << 20;

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

}  // namespace openreg::wire
