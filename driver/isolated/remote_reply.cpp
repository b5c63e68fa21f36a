#include "isolated/remote_reply.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "isolated/remote_queue.h"

namespace openreg {

namespace {

// The device's report of a command's failure, made safe to use.
Status read_failure(const wire::Reply& reply) {
  auto code = static_cast<orError_t>(reply.code);
  if (code == orSuccess) return {};
  if (!is_failure(code)) code = orErrorInternal;
  const size_t size = std::min<size_t>(reply.size, reply.bytes.size());
  return {code,
          std::string(reinterpret_cast<const char*>(reply.bytes.data()), size)};
}

}  // namespace

RemoteReply::RemoteReply(std::shared_ptr<RemoteQueue> queue, Channel& channel,
                         std::shared_ptr<const Staging> room)
    : queue_(std::move(queue)),
      channel_(channel),
      room_(std::move(room)),
      index_(channel.take_reply()) {}

RemoteReply::~RemoteReply() {
  // A slot that may still be answered is never used again: this happens only if
  // a call fails between the two halves of what it sends.
  if (queue_->timeline().reached(sequence_)) channel_.return_reply(index_);
}

void RemoteReply::settle(Completion& completion) {
  const std::shared_ptr<PendingReply> self = std::move(completion.pending);
  const wire::Reply& reply = channel_.reply(index_);
  if (reply.state.load(std::memory_order_acquire) == wire::Reply::kUnanswered) {
    completion.status = queue_->refusal();
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

}  // namespace openreg
