#include "core/stream.h"

#include <array>
#include <utility>

#include "core/context.h"

namespace openreg {

bool Stream::is_blocking() const {
  return !is_default_ && (flags_ & orStreamNonBlocking) == 0;
}

Status Stream::submit(Command&& command, Payload payload, Urgency urgency) {
  if (context_.config().launch_blocking) {
    Completion completion;
    return run(std::move(command), payload, completion);
  }
  return submit_async(std::move(command), payload, urgency);
}

Status Stream::submit_async(Command&& command, Payload payload, Urgency urgency,
                            Fence* fence) {
  Submission submission{.payload = payload, .urgency = urgency};
  OPENREG_RETURN_IF_ERROR(enqueue(std::move(command), submission));
  if (fence != nullptr) *fence = {queue_, submission.sequence};
  return {};
}

Status Stream::run(Command&& command, Payload payload, Completion& completion,
                   Urgency urgency) {
  Submission submission{payload, urgency, &completion};
  OPENREG_RETURN_IF_ERROR(enqueue(std::move(command), submission));
  queue_->wait(submission.sequence);
  if (completion.pending != nullptr) completion.pending->settle(completion);
  OPENREG_RETURN_IF_ERROR(completion.status);
  return context_.failures().take();
}

namespace {

// The devices whose memory a command uses; null where it is the host's.
std::array<Context*, 2> owners_of(const Command& command) {
  if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    return {copy->dst.owner, copy->src.owner};
  }
  if (const auto* fill = std::get_if<FillCommand>(&command)) {
    return {fill->dst.owner, nullptr};
  }
  return {};
}

}  // namespace

Status Stream::enqueue(Command&& command, Submission& submission) {
  OPENREG_RETURN_IF_ERROR(context_.failures().take());
  OPENREG_RETURN_IF_ERROR(context_.order(*this));
  const std::array<Context*, 2> owners = owners_of(command);
  OPENREG_RETURN_IF_ERROR(queue_->submit(std::move(command), submission));
  for (Context* const owner : owners) {
    if (owner != nullptr && owner != &context_) {
      owner->note_visit({queue_, submission.sequence});
    }
  }
  return {};
}

Status Stream::synchronize() {
  queue_->wait(queue_->submitted());
  return context_.failures().take();
}

Status Stream::query() const {
  OPENREG_RETURN_IF_ERROR(context_.failures().take());
  if (queue_->idle()) return context_.failures().take();
  return failure(orErrorNotReady, "work is queued or running on the stream");
}

}  // namespace openreg
