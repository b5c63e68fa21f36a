// Queues and their commands. What the numbers in a command mean is in
// read_command.cpp.
#include "isolated/device/dispatcher.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/system_memory.h"
#include "execution/worker_queue.h"
#include "isolated/device/tasks.h"

namespace openreg {

namespace {

bool is_about_device(wire::Kind kind) {
  return kind >= wire::Kind::kAddMemory && kind <= wire::Kind::kRetireQueue;
}

// Whether a command is so short that the dispatcher may run it by itself. That
// a kernel is short is the program's promise: others can be seen.
bool may_run_here(const wire::Header& header) {
  if ((header.flags & (wire::kCheap | wire::kShort)) == 0) return false;
  switch (header.kind) {
    case wire::Kind::kLaunch:
    case wire::Kind::kStamp:
    case wire::Kind::kFindKernel:
    case wire::Kind::kPing:
      return true;
    case wire::Kind::kCopy:
      return header.arguments[2] <= wire::kPiece;
    case wire::Kind::kFill:
      return header.arguments[1] <= wire::kPiece;
    default:
      return false;
  }
}

}  // namespace

Dispatcher::Dispatcher(const DeviceParts& parts, uint32_t control_queue)
    : parts_(parts),
      control_queue_(control_queue),
      places_(usable_processors()) {
  static_cast<void>(create_queue(control_queue, 0));
}

Dispatcher::~Dispatcher() { all_queues_.close(); }

void Dispatcher::report(const Status& status) {
  parts_.context.failures().report(status);
}

void Dispatcher::handle(const wire::Header& header,
                        std::span<const std::byte> payload) {
  Status status;
  try {
    status = is_about_device(header.kind) ? handle_device(header)
                                          : handle_queued(header, payload);
  } catch (const std::bad_alloc&) {
    status = failure(orErrorOutOfMemory, "the device process has no memory");
  }
  if (!status.ok()) {
    report(failure(status.code(), "device %d refused a command: %s",
                   parts_.context.device(), status.message().c_str()));
  }
}

Status Dispatcher::find_staged(std::span<const std::byte>* payload) const {
  wire::StagedPayload staged{};
  if (payload->size() == sizeof staged) {
    std::memcpy(&staged, payload->data(), sizeof staged);
  }
  const void* const bytes =
      staged.size <= wire::kMaxPayload
          ? parts_.host.staging.find(staged.address, staged.size)
          : nullptr;
  if (bytes == nullptr) {
    return failure(orErrorInvalidValue, "a staged payload is not there");
  }
  *payload = {static_cast<const std::byte*>(bytes), staged.size};
  return {};
}

Status Dispatcher::handle_device(const wire::Header& header) {
  Heap& heap = parts_.context.memory().heap();
  const uint64_t address = header.arguments[0];
  switch (header.kind) {
    case wire::Kind::kAddMemory:
      if (heap.place(address, header.arguments[1])) return {};
      return failure(orErrorInvalidValue,
                     "%llu bytes at 0x%llx are not free, or above its limit of "
                     "%zu bytes",
                     static_cast<unsigned long long>(header.arguments[1]),
                     static_cast<unsigned long long>(address), heap.limit());
    case wire::Kind::kRemoveMemory:
      if (!heap.begin_free(address)) {
        return failure(orErrorInvalidValue,
                       "0x%llx is not the start of an allocation",
                       static_cast<unsigned long long>(address));
      }
      heap.end_free(address);
      return {};
    case wire::Kind::kCreateQueue:
      return create_queue(header.queue, header.arguments[0]);
    default:
      return retire_queue(header.queue);
  }
}

Status Dispatcher::create_queue(uint32_t index, uint64_t priority) {
  const auto level = static_cast<int64_t>(priority);
  if (index >= wire::kFenceSlots || find_queue(index) != nullptr) {
    return failure(orErrorInvalidValue, "queue %u can't be created", index);
  }
  if (level < kGreatestPriority || level > kLeastPriority) {
    return failure(orErrorInvalidValue, "there is no such priority");
  }
  if (const auto old = retired_[index].lock()) {
    // Two queues with work would not know each other's numbers.
    if (!old->idle()) {
      return failure(orErrorInvalidValue, "queue %u still has work", index);
    }
  }
  retired_.erase(index);
  if (queues_.size() <= index) queues_.resize(index + 1);
  auto queue = std::make_shared<WorkerQueue>(parts_.context, places_,
                                             static_cast<int>(level),
                                             parts_.fences[index].done);
  all_queues_.add(queue, /*blocking=*/false);
  queues_[index] = std::move(queue);
  return {};
}

Status Dispatcher::retire_queue(uint32_t index) {
  Queue* const queue = find_queue(index);
  if (queue == nullptr || index == control_queue_) {
    return failure(orErrorInvalidHandle, "there is no queue %u to retire",
                   index);
  }
  tidy();
  retired_[index] = queues_[index];
  all_queues_.retire(*queue);
  queues_[index].reset();
  return {};
}

void Dispatcher::tidy() {
  if (retired_.empty()) return;
  all_queues_.tidy();
  std::erase_if(retired_,
                [](const auto& entry) { return entry.second.expired(); });
}

Queue* Dispatcher::find_queue(uint32_t index) const {
  return index < queues_.size() ? queues_[index].get() : nullptr;
}

Status Dispatcher::handle_queued(const wire::Header& header,
                                 std::span<const std::byte> payload) {
  Queue* const queue = find_queue(header.queue);
  if (queue == nullptr) {
    return failure(orErrorInvalidHandle, "there is no queue %u", header.queue);
  }
  const unsigned long long expected = queue->submitted() + 1;
  if (header.number != expected) {
    return failure(
        orErrorInvalidValue, "command %llu of queue %u came instead of %llu",
        static_cast<unsigned long long>(header.number), header.queue, expected);
  }
  Status status;
  Submission submission;
  if (header.reply != wire::kNoReply) {
    submission.completion = parts_.reply_slots.open(header.reply, SIZE_MAX);
    if (submission.completion == nullptr) {
      status =
          failure(orErrorInvalidValue, "reply %u can't be given", header.reply);
    }
  }
  if (status.ok() && (header.flags & wire::kStaged) != 0) {
    status = find_staged(&payload);
  }
  if (may_run_here(header)) {
    submission.urgency =
        (header.flags & wire::kCheap) != 0 ? Urgency::kCheap : Urgency::kShort;
  }
  if (submission.urgency != Urgency::kQueued && !payload.empty()) {
    // It may run from here, and must not change meanwhile.
    scratch_.assign(payload.begin(), payload.end());
    payload = scratch_;
  }
  Command command;
  if (status.ok()) {
    status = read_command(header, payload, submission.completion, &command);
  }
  if (!status.ok()) command = make_refusal(std::move(status));
  submission.payload = payload;
  return queue->submit(std::move(command), submission);
}

}  // namespace openreg
