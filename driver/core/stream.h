// A stream: a queue of a device with the rules of the API around it.
#pragma once

#include <memory>

#include "core/command.h"
#include "core/queue.h"
#include "core/status.h"

namespace openreg {

class Context;

// Immutable except for its queue. Thread-safe.
class Stream {
 public:
  Stream(Context& context, std::shared_ptr<Queue> queue, unsigned int flags,
         int priority, bool is_default)
      : context_(context),
        queue_(std::move(queue)),
        flags_(flags),
        priority_(priority),
        is_default_(is_default) {}

  Context& context() const { return context_; }
  Queue& queue() const { return *queue_; }
  unsigned int flags() const { return flags_; }
  int priority() const { return priority_; }
  bool is_default() const { return is_default_; }
  // Whether it orders itself with the default stream.
  bool is_blocking() const;

  // A point behind everything submitted so far.
  Fence fence() const { return {queue_, queue_->submitted()}; }

  // Submits work. Tells an earlier failure of the device instead, if there is
  // one. With OPENREG_LAUNCH_BLOCKING=1, waits for it as run() does.
  Status submit(Command&& command, Payload payload = {},
                Urgency urgency = Urgency::kQueued);

  // The same, never waiting: for what takes no time of its own (a wait, a mark,
  // a host function, a gate). Stores the point behind it in `fence`, if given.
  Status submit_async(Command&& command, Payload payload = {},
                      Urgency urgency = Urgency::kQueued,
                      Fence* fence = nullptr);

  // Submits work and waits for it. Its own failure is returned; then that of
  // earlier work. `completion` may bring room for a reply.
  Status run(Command&& command, Payload payload, Completion& completion,
             Urgency urgency = Urgency::kWaited);

  // Waits for everything submitted so far and reports an earlier failure.
  Status synchronize();
  // orErrorNotReady while something is queued or runs.
  Status query() const;

 private:
  // Tells an earlier failure, or hands the command to the queue and lets other
  // devices know whose memory it uses.
  Status enqueue(Command&& command, Submission& submission);

  Context& context_;
  const std::shared_ptr<Queue> queue_;
  const unsigned int flags_;
  const int priority_;
  const bool is_default_;
};

}  // namespace openreg
