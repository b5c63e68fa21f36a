// Sending commands and collecting results. How copies reach the device is in
// remote_copy.cpp.
#include "isolated/remote_queue.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "core/call_scope.h"
#include "core/counters.h"
#include "core/runtime.h"
#include "isolated/remote_module.h"

namespace openreg {

namespace {

// A stream that holds more than this makes its producers wait.
constexpr size_t kMostPendingBytes = size_t{16} << 20;
// How exactly that is known.
constexpr size_t kMarkBytes = size_t{64} << 10;

wire::Header make_header(wire::Kind kind, std::array<uint64_t, 4> arguments,
                         Urgency urgency = Urgency::kQueued) {
  wire::Header header{};
  header.kind = kind;
  header.reply = wire::kNoReply;
  header.arguments = arguments;
  if (urgency == Urgency::kShort) {
    header.flags = wire::kShort;
  } else if (urgency != Urgency::kQueued) {
    header.flags = wire::kCheap;
  }
  return header;
}

// What the device says about a command, made safe to use.
Status read_failure(const wire::Reply& reply) {
  auto code = static_cast<orError_t>(reply.code);
  if (code == orSuccess) return {};
  if (!is_failure(code)) code = orErrorInternal;
  const size_t size = std::min<size_t>(reply.size, reply.bytes.size());
  return {code,
          std::string(reinterpret_cast<const char*>(reply.bytes.data()), size)};
}

}  // namespace

// A reply slot that a command was sent with, until it is settled.
class RemoteQueue::Reply final : public PendingReply {
 public:
  Reply(std::shared_ptr<RemoteQueue> queue, uint32_t index)
      : queue_(std::move(queue)), index_(index) {}
  ~Reply() override {
    // A slot that may still be answered is never used again: this happens only
    // if a call fails between the two halves of what it sends.
    if (queue_->timeline().reached(sequence_)) {
      queue_->channel_->return_reply(index_);
    }
  }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  // The command that the reply belongs to; none if it was not sent.
  void set_sequence(uint64_t sequence) { sequence_ = sequence; }
  // Long replies arrive there.
  void set_room(std::shared_ptr<Staging> room) { room_ = std::move(room); }

  void settle(Completion& completion) override {
    const std::shared_ptr<PendingReply> self = std::move(completion.pending);
    const wire::Reply& reply = queue_->channel_->reply(index_);
    if (reply.state.load(std::memory_order_acquire) ==
        wire::Reply::kUnanswered) {
      const std::lock_guard lock(queue_->submit_mutex_);
      completion.status = queue_->refused();
      return;
    }
    completion.status = read_failure(reply);
    if (!completion.status.ok() || !completion.wants_reply) return;
    const size_t size = std::min<size_t>(reply.size, completion.reply.size());
    const std::byte* const bytes =
        room_ != nullptr ? room_->data() : reply.bytes.data();
    if (size > 0) std::memcpy(completion.reply.data(), bytes, size);
    completion.reply_size = size;
  }

 private:
  const std::shared_ptr<RemoteQueue> queue_;
  const uint32_t index_;
  uint64_t sequence_ = 0;
  std::shared_ptr<Staging> room_;
};

RemoteQueue::RemoteQueue(Context& context, std::shared_ptr<Channel> channel,
                         uint32_t index)
    : Queue(IsolatedWorld::get().slot(index).done),
      context_(context),
      channel_(std::move(channel)),
      index_(index),
      slot_(IsolatedWorld::get().slot(index)),
      host_functions_(slot_) {}

RemoteQueue::~RemoteQueue() {
  retire();
  host_functions_.join();
  // Who waits for a number of this queue keeps it: nobody does any more. But
  // the device may still have work of it.
  IsolatedWorld::get().return_slot(index_, submitted());
}

Status RemoteQueue::submit(Command&& command, Payload payload, Urgency urgency,
                           Completion* completion, uint64_t* sequence) {
  const bool is_mark = std::holds_alternative<WaitCommand>(command) ||
                       std::holds_alternative<StampCommand>(command);
  if (!is_mark) hold_back();
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
    return submit_launch(*launch, payload, urgency, completion, sequence);
  }
  if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    return submit_copy(*copy, payload, urgency, completion, sequence);
  }
  if (const auto* fill = std::get_if<FillCommand>(&command)) {
    return submit_fill(*fill, urgency, completion, sequence);
  }
  if (const auto* wait = std::get_if<WaitCommand>(&command)) {
    return submit_wait(*wait, sequence);
  }
  if (const auto* stamp = std::get_if<StampCommand>(&command)) {
    return send(make_header(wire::Kind::kStamp,
                            {channel_->index_of(*stamp->stamp)}, urgency),
                {}, completion, sequence, stamp->stamp);
  }
  if (const auto* host = std::get_if<HostCommand>(&command)) {
    const HostCommand call = *host;
    return submit_function(
        [call] {
          const DeviceCodeScope scope;
          call.function(call.data);
        },
        completion, sequence);
  }
  return failure(orErrorInternal, "a task was sent to another process");
}

Status RemoteQueue::submit_launch(const LaunchCommand& command, Payload payload,
                                  Urgency urgency, Completion* completion,
                                  uint64_t* sequence) {
  const auto& kernel = static_cast<const RemoteKernel&>(*command.kernel);
  // That somebody waits for a kernel does not say how long it runs.
  if (urgency == Urgency::kWaited) urgency = Urgency::kQueued;
  wire::Header header = make_header(wire::Kind::kLaunch,
                                    {kernel.module(), kernel.index()}, urgency);
  std::shared_ptr<Staging> room;
  header.arguments[2] = wire::kNoRoom;
  if (completion != nullptr && completion->wants_reply) {
    const size_t capacity = completion->reply.size();
    header.arguments[2] = capacity;
    if (capacity > sizeof(wire::Reply::bytes)) {
      room = std::make_shared<Staging>(capacity);
      header.arguments[3] = reinterpret_cast<uintptr_t>(room->data());
    }
  }
  OPENREG_RETURN_IF_ERROR(send(header, payload, completion, sequence));
  if (room != nullptr) {
    hold(room);
    static_cast<Reply&>(*completion->pending).set_room(std::move(room));
  }
  return {};
}

Status RemoteQueue::submit_wait(const WaitCommand& command,
                                uint64_t* sequence) {
  const auto& other = static_cast<const RemoteQueue&>(*command.fence.queue);
  // The other queue keeps its slot for as long as its number is waited for.
  return send(
      make_header(wire::Kind::kWait, {other.index(), command.fence.sequence}),
      {}, nullptr, sequence, command.fence.queue);
}

Status RemoteQueue::submit_function(std::function<void()> function,
                                    Completion* completion,
                                    uint64_t* sequence) {
  auto guarded = [this, function = std::move(function)] {
    try {
      function();
    } catch (...) {
      context_.failures().report(
          failure(orErrorLaunchFailure, "a host function threw an exception"));
    }
  };
  const std::lock_guard lock(functions_mutex_);
  {
    // Without a thread that nobody would end.
    const std::lock_guard submit_lock(submit_mutex_);
    if (retired_) return refused();
  }
  try {
    host_functions_.add(std::move(guarded));
  } catch (const std::system_error& error) {
    return failure(orErrorOutOfMemory,
                   "the stream's thread for host functions cannot be started: "
                   "%s",
                   error.what());
  }
  Status status =
      send(make_header(wire::Kind::kHost, {}), {}, completion, sequence);
  if (!status.ok()) host_functions_.take_back();
  return status;
}

Status RemoteQueue::send(wire::Header header, Payload payload,
                         Completion* completion, uint64_t* sequence,
                         std::shared_ptr<const void> keep) {
  if (channel_ != nullptr) channel_->ensure_started();
  {
    const std::lock_guard lock(submit_mutex_);
    if (retired_) return refused();
  }
  // What would fill the ring is staged, and stays until it was taken.
  std::optional<Staging> staging;
  wire::StagedPayload staged{};
  const size_t payload_size = payload.size();
  if (payload_size > wire::kMaxInRing) {
    staging.emplace(payload_size);
    std::memcpy(staging->data(), payload.data(), payload_size);
    staged = {reinterpret_cast<uintptr_t>(staging->data()), payload_size};
    payload = std::as_bytes(std::span(&staged, 1));
    header.flags |= wire::kStaged;
  }
  uint64_t end = 0;
  std::shared_ptr<Reply> reply;
  if (completion != nullptr) {
    header.reply = channel_->take_reply();
    reply = std::make_shared<Reply>(
        std::static_pointer_cast<RemoteQueue>(shared_from_this()),
        header.reply);
  }
  Status status;
  {
    const std::lock_guard lock(submit_mutex_);
    status = retired_ ? refused() : Status();
    if (status.ok()) {
      const uint64_t number = submitted_.load(std::memory_order_relaxed) + 1;
      submitted_.store(number, std::memory_order_seq_cst);
      header.queue = index_;
      header.number = number;
      *sequence = number;
      if (keep != nullptr) keep_until(number, std::move(keep));
      if (!channel_->push(header, payload, &end)) {
        // Its death was reported before the ring was closed.
        status = context_.failures().sticky();
        if (status.ok()) status = being_reset(context_.device());
      }
    }
  }
  if (!status.ok()) return status;
  if (staging.has_value()) channel_->wait_until_taken(end);
  if (completion != nullptr) {
    reply->set_sequence(*sequence);
    completion->pending = std::move(reply);
  }
  const std::lock_guard lock(flow_mutex_);
  sent_bytes_ += wire::record_size(payload_size);
  const size_t marked = marks_.empty() ? done_bytes_ : marks_.back().total;
  if (sent_bytes_ - marked >= kMarkBytes) {
    marks_.push_back({*sequence, sent_bytes_});
  }
  return {};
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
  for (;;) {
    uint64_t target = 0;
    {
      const std::lock_guard lock(flow_mutex_);
      while (!marks_.empty() && timeline_.reached(marks_.front().sequence)) {
        done_bytes_ = marks_.front().total;
        marks_.pop_front();
      }
      if (marks_.empty() || sent_bytes_ - done_bytes_ <= kMostPendingBytes) {
        return;
      }
      target = marks_.front().sequence;
    }
    wait(target, WaitStyle::kSpin);
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
  Completion completion;
  uint64_t sequence = 0;
  const bool is_cheap =
      kind == wire::Kind::kPing || kind == wire::Kind::kFindKernel;
  OPENREG_RETURN_IF_ERROR(
      send(make_header(kind, arguments,
                       is_cheap ? Urgency::kCheap : Urgency::kQueued),
           payload, &completion, &sequence));
  wait(sequence, WaitStyle::kSpin);
  completion.pending->settle(completion);
  return completion.status;
}

void RemoteQueue::retire() {
  std::map<Context*, std::shared_ptr<Queue>> peers;
  {
    const std::lock_guard lock(peers_mutex_);
    peers.swap(peers_);
  }
  for (const auto& [context, queue] : peers) queue->retire();
  const std::lock_guard lock(submit_mutex_);
  if (retired_) return;
  retired_ = true;
  wire::Header header = make_header(wire::Kind::kRetireQueue, {});
  header.queue = index_;
  channel_->push_lazily(header);  // a device that is gone has no queues
}

void RemoteQueue::cancel() { retire(); }

void RemoteQueue::join() {
  host_functions_.join();
  decltype(kept_) kept;  // goes after the lock
  const std::lock_guard lock(submit_mutex_);
  // Queues that wait for each other would keep each other for ever.
  if (idle()) kept.swap(kept_);
}

bool RemoteQueue::join_until(std::chrono::steady_clock::time_point deadline) {
  return host_functions_.join_until(deadline);
}

void RemoteQueue::lose(const Status& why) {
  decltype(kept_) kept;  // goes after the lock
  const std::lock_guard lock(submit_mutex_);
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
