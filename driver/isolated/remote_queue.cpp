#include "isolated/remote_queue.h"

#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "core/call_scope.h"
#include "core/counters.h"
#include "core/runtime.h"
#include "isolated/remote_reply.h"

namespace openreg {

namespace {

wire::Header make_header(wire::Kind kind,
                         std::array<uint64_t, wire::kArguments> arguments,
                         Urgency urgency) {
  wire::Header header = wire::make_header(kind, arguments);
  if (urgency == Urgency::kShort) {
    header.flags = wire::kShort;
  } else if (urgency != Urgency::kQueued) {
    header.flags = wire::kCheap;
  }
  return header;
}

// Stages a payload that would fill the ring; `place` is sent instead.
std::optional<Staging> stage_long(wire::Header* header, Payload* payload,
                                  wire::StagedPayload* place) {
  const size_t size = payload->size();
  if (size <= wire::kMaxInRing) return std::nullopt;
  Staging staging(size);
  std::memcpy(staging.data(), payload->data(), size);
  *place = {reinterpret_cast<uintptr_t>(staging.data()), size};
  *payload = std::as_bytes(std::span(place, 1));
  header->flags |= wire::kStaged;
  return staging;
}

}  // namespace

RemoteQueue::RemoteQueue(Context& context, std::shared_ptr<Channel> channel,
                         uint32_t index, Context* visitor)
    : Queue(IsolatedWorld::get().slot(index).done),
      context_(context),
      channel_(std::move(channel)),
      index_(index),
      visitor_(visitor),
      host_functions_(IsolatedWorld::get().slot(index)),
      flow_(timeline_),
      peers_(*this),
      copies_(*this, peers_) {}

RemoteQueue::~RemoteQueue() {
  retire();
  host_functions_.join();
  // Who waits for a number of this queue keeps it: nobody does any more. But
  // the device may still have work of it.
  IsolatedWorld::get().return_slot(index_, submitted());
}

Status RemoteQueue::submit(Command&& command, Submission& submission) {
  const bool is_mark = std::holds_alternative<WaitCommand>(command) ||
                       std::holds_alternative<StampCommand>(command);
  if (!is_mark) hold_back();
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
    return submit_launch(*launch, submission);
  }
  if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    return copies_.copy(*copy, submission);
  }
  if (const auto* fill = std::get_if<FillCommand>(&command)) {
    return copies_.fill(*fill, submission);
  }
  if (const auto* wait = std::get_if<WaitCommand>(&command)) {
    return submit_wait(*wait, submission);
  }
  if (const auto* stamp = std::get_if<StampCommand>(&command)) {
    return submit_stamp(*stamp, submission);
  }
  if (const auto* host = std::get_if<HostCommand>(&command)) {
    return submit_call(*host, submission);
  }
  return failure(orErrorInternal, "a task was sent to another process");
}

Status RemoteQueue::submit_launch(const LaunchCommand& command,
                                  Submission& submission) {
  const auto* const code = std::get_if<RemoteCode>(&command.kernel->code());
  if (code == nullptr) {
    return failure(orErrorInternal, "the kernel is not in the device process");
  }
  // That somebody waits for a kernel does not say how long it runs.
  const Urgency urgency = submission.urgency == Urgency::kWaited
                              ? Urgency::kQueued
                              : submission.urgency;
  wire::Header header =
      make_header(wire::Kind::kLaunch, {code->module, code->kernel}, urgency);
  header.arguments[2] = wire::kNoRoom;
  std::shared_ptr<const Staging> room;
  const Completion* const completion = submission.completion;
  if (completion != nullptr && completion->wants_reply) {
    const size_t capacity = completion->reply.size();
    header.arguments[2] = capacity;
    if (capacity > sizeof(wire::Reply::bytes)) {
      room = std::make_shared<Staging>(capacity);
      header.arguments[3] = reinterpret_cast<uintptr_t>(room->data());
    }
  }
  OPENREG_RETURN_IF_ERROR(send(header, submission, nullptr, room));
  if (room != nullptr) hold(std::move(room));
  return {};
}

Status RemoteQueue::submit_wait(const WaitCommand& command,
                                Submission& submission) {
  const Queue& other = *command.fence.queue;
  const uint32_t slot = IsolatedWorld::get().index_of(other.timeline());
  // The other queue keeps its slot for as long as its number is waited for.
  return send(
      wire::make_header(wire::Kind::kWait, {slot, command.fence.sequence}),
      submission, command.fence.queue);
}

Status RemoteQueue::submit_stamp(const StampCommand& command,
                                 Submission& submission) {
  return send(
      make_header(wire::Kind::kStamp, {channel_->index_of(*command.stamp)},
                  submission.urgency),
      submission, command.stamp);
}

Status RemoteQueue::submit_call(const HostCommand& command,
                                Submission& submission) {
  return submit_function(
      [command] {
        const DeviceCodeScope scope;
        command.function(command.data);
      },
      submission);
}

Status RemoteQueue::submit_function(std::function<void()> function,
                                    Submission& submission) {
  auto guarded = [this, function = std::move(function)] {
    try {
      function();
    } catch (...) {
      context_.failures().report(
          failure(orErrorLaunchFailure, "a host function threw an exception"));
    }
  };
  {
    // Without a thread that nobody would end.
    const MutexLock lock(submit_mutex_);
    if (retired_) return refused();
  }
  return host_functions_.add(std::move(guarded), [&] {
    return send(wire::make_header(wire::Kind::kHost, {}), submission);
  });
}

Status RemoteQueue::send(wire::Header header, Submission& submission,
                         std::shared_ptr<const void> keep,
                         std::shared_ptr<const Staging> room) {
  if (channel_ != nullptr) channel_->ensure_started();
  {
    const MutexLock lock(submit_mutex_);
    if (retired_) return refused();
  }
  Payload payload = submission.payload;
  wire::StagedPayload place{};
  const auto staging = stage_long(&header, &payload, &place);
  std::shared_ptr<RemoteReply> reply;
  if (submission.completion != nullptr) {
    reply = std::make_shared<RemoteReply>(self(), *channel_, std::move(room));
    header.reply = reply->index();
  }
  uint64_t end = 0;
  {
    const MutexLock lock(submit_mutex_);
    if (retired_) return refused();
    header.queue = index_;
    header.number = submission.sequence = take_number();
    if (keep != nullptr) keep_until(header.number, std::move(keep));
    if (!channel_->push(header, payload, &end)) return unreachable();
  }
  if (staging) channel_->wait_until_taken(end);
  if (reply != nullptr) {
    reply->set_sequence(submission.sequence);
    submission.completion->pending = std::move(reply);
  }
  flow_.add(submission.sequence, wire::record_size(submission.payload.size()));
  return {};
}

uint64_t RemoteQueue::take_number() {
  const uint64_t number = submitted_.load(std::memory_order_relaxed) + 1;
  submitted_.store(number, std::memory_order_seq_cst);
  return number;
}

Status RemoteQueue::unreachable() const {
  // Its death was reported before the ring was closed.
  Status status = context_.failures().sticky();
  return status.ok() ? being_reset(context_.device()) : status;
}

Status RemoteQueue::refusal() {
  const MutexLock lock(submit_mutex_);
  return refused();
}

Status RemoteQueue::refused() const {
  if (!lost_.ok()) return lost_;
  return failure(orErrorInvalidHandle,
                 "the stream is being destroyed, or device %d reset, by "
                 "another thread",
                 context_.device());
}

void RemoteQueue::keep_until(uint64_t sequence,
                             std::shared_ptr<const void> object) {
  while (!kept_.empty() && timeline_.reached(kept_.front().sequence)) {
    kept_.pop_front();
  }
  kept_.push_back({sequence, std::move(object)});
}

void RemoteQueue::hold_back() {
  while (const auto obstacle = flow_.obstacle()) {
    wait(*obstacle, WaitStyle::kSpin);
  }
}

void RemoteQueue::wait(uint64_t target, WaitStyle style) {
  if (style == WaitStyle::kSpin) style = WaitStyle::kSpinBriefly;
  if (target > waited_for_.load(std::memory_order_relaxed)) {
    waited_for_.store(target, std::memory_order_relaxed);
    counters().device_waits.fetch_add(1, std::memory_order_relaxed);
  }
  timeline_.wait(target, style);
}

Status RemoteQueue::request(wire::Kind kind, std::array<uint64_t, 4> arguments,
                            Payload payload) {
  const bool is_cheap =
      kind == wire::Kind::kPing || kind == wire::Kind::kFindKernel;
  Completion completion;
  Submission submission{payload, is_cheap ? Urgency::kCheap : Urgency::kQueued,
                        &completion};
  OPENREG_RETURN_IF_ERROR(
      send(make_header(kind, arguments, submission.urgency), submission));
  wait(submission.sequence, WaitStyle::kSpin);
  completion.pending->settle(completion);
  return completion.status;
}

void RemoteQueue::retire() {
  peers_.retire();
  const MutexLock lock(submit_mutex_);
  if (retired_) return;
  retired_ = true;
  wire::Header header = wire::make_header(wire::Kind::kRetireQueue, {});
  header.queue = index_;
  channel_->push_lazily(header);  // a device that is gone has no queues
}

void RemoteQueue::cancel() { retire(); }

void RemoteQueue::join() {
  host_functions_.join();
  decltype(kept_) kept;  // goes after the lock
  const MutexLock lock(submit_mutex_);
  // Queues that wait for each other would keep each other for ever.
  if (idle()) kept.swap(kept_);
}

bool RemoteQueue::join_until(std::chrono::steady_clock::time_point deadline) {
  return host_functions_.join_until(deadline);
}

void RemoteQueue::lose(const Status& why) {
  decltype(kept_) kept;  // goes after the lock
  const MutexLock lock(submit_mutex_);
  if (!lost_.ok()) return;
  lost_ = why;
  retired_ = true;
  kept.swap(kept_);
  host_functions_.stop();
  if (visitor_ != nullptr && !idle()) {
    visitor_->failures().report(failure(
        orErrorLaunchFailure,
        "a copy found that device %d was reset or lost while it was queued",
        context_.device()));
  }
  timeline_.advance(submitted());
}

}  // namespace openreg
