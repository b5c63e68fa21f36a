#include "core/stream.h"

#include <utility>

#include "core/context.h"

namespace openreg {

bool Stream::is_blocking() const {
  return !is_default_ && (flags_ & orStreamNonBlocking) == 0;
}

Status Stream::submit(Command command, Payload payload, Urgency urgency) {
  if (context_.config().launch_blocking) {
    Completion completion;
    return run(std::move(command), payload, completion);
  }
  return submit_mark(std::move(command), payload, urgency);
}

Status Stream::submit_mark(Command command, Payload payload, Urgency urgency) {
  OPENREG_RETURN_IF_ERROR(context_.failures().take());
  OPENREG_RETURN_IF_ERROR(context_.order(*this));
  uint64_t sequence = 0;
  return queue_->submit(std::move(command), payload, urgency, nullptr,
                        &sequence);
}

Status Stream::run(Command command, Payload payload, Completion& completion) {
  OPENREG_RETURN_IF_ERROR(context_.failures().take());
  OPENREG_RETURN_IF_ERROR(context_.order(*this));
  uint64_t sequence = 0;
  OPENREG_RETURN_IF_ERROR(queue_->submit(
      std::move(command), payload, Urgency::kWaited, &completion, &sequence));
  queue_->wait(sequence);
  OPENREG_RETURN_IF_ERROR(completion.status);
  return context_.failures().take();
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
