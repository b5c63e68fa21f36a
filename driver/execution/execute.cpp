// Runs each kind of command when its turn has come.
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "core/call_scope.h"
#include "core/futex.h"
#include "execution/kernel_call.h"
#include "execution/worker_queue.h"

namespace openreg {

namespace {

// The bytes that a command refers to, held in place while a copy is at work.
class Bytes {
 public:
  Bytes(const MemoryRef& memory, const Context& own)
      : pointer_(memory.pointer) {
    if (memory.owner == nullptr) return;
    if (memory.owner != &own) {
      visit_ = memory.owner->memory().visit();
      if (!visit_.owns_lock()) {
        gone_ = memory.owner;
        return;
      }
    }
    pointer_ = memory.owner->memory().view(memory.pointer);
  }

  void* get() const { return pointer_; }
  Status check() const {
    if (gone_ == nullptr) return {};
    return failure(orErrorLaunchFailure,
                   "a copy found that device %d was reset while it was queued",
                   gone_->device());
  }

 private:
  void* pointer_;
  std::shared_lock<std::shared_mutex> visit_;
  const Context* gone_ = nullptr;
};

}  // namespace

Status WorkerQueue::dropped() const {
  if (cancelled_.load(std::memory_order_acquire)) {
    return failure(orErrorInvalidHandle,
                   "device %d was reset while the work was queued",
                   context_.device());
  }
  return context_.failures().sticky();
}

bool WorkerQueue::is_exempt(const Command& command) const {
  const auto* const task = std::get_if<TaskCommand>(&command);
  return task != nullptr && task->task->runs_on_broken_device() &&
         !cancelled_.load(std::memory_order_acquire);
}

void WorkerQueue::run(Command& command, Payload payload, Completion* completion,
                      bool has_place) {
  Status status = dropped();
  if (!status.ok() && is_exempt(command)) status = Status();
  if (status.ok()) {
    try {
      status = dispatch(command, payload, completion, has_place);
    } catch (const std::bad_alloc&) {
      status = Status(orErrorOutOfMemory, "no host memory");
    }
    const bool is_sticky = context_.failures().is_sticky(status.code());
    if (!status.ok() && (completion == nullptr || is_sticky)) {
      context_.failures().report(status);
    }
  } else if (has_place) {
    places_.release();
  }
  if (completion == nullptr) return;
  completion->status = std::move(status);
  if (completion->publish != nullptr) completion->publish(*completion);
}

Status WorkerQueue::dispatch(Command& command, Payload payload,
                             Completion* completion, bool has_place) {
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
    return execute(*launch, payload, completion, has_place);
  }
  if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    return execute(*copy, payload);
  }
  if (const auto* fill = std::get_if<FillCommand>(&command)) {
    return execute(*fill);
  }
  if (const auto* host = std::get_if<HostCommand>(&command)) {
    return execute(*host);
  }
  if (const auto* wait = std::get_if<WaitCommand>(&command)) {
    return execute(*wait);
  }
  if (const auto* stamp = std::get_if<StampCommand>(&command)) {
    return execute(*stamp);
  }
  return std::get<TaskCommand>(command).task->run(
      [this] { return !dropped().ok(); }, completion);
}

Status WorkerQueue::execute(const LaunchCommand& command, Payload payload,
                            Completion* completion, bool has_place) {
  const DeviceCodeScope scope;
  KernelCall call(context_, places_, priority_, cancelled_, payload,
                  completion);
  call.enter(has_place);
  // While it waited for its place, the device may have been reset.
  OPENREG_RETURN_IF_ERROR(dropped());
  return call.run(*command.kernel);
}

Status WorkerQueue::execute(const CopyCommand& command, Payload payload) {
  const Bytes dst(command.dst, context_);
  OPENREG_RETURN_IF_ERROR(dst.check());
  if (command.src.pointer == nullptr) {
    std::memcpy(dst.get(), payload.data(), command.count);
    return {};
  }
  // Two places on one other device are one visit.
  const bool same_visit =
      command.src.owner == command.dst.owner && command.src.owner != &context_;
  if (same_visit && command.src.owner != nullptr) {
    std::memmove(dst.get(),
                 command.src.owner->memory().view(command.src.pointer),
                 command.count);
    return {};
  }
  const Bytes src(command.src, context_);
  OPENREG_RETURN_IF_ERROR(src.check());
  std::memmove(dst.get(), src.get(), command.count);
  return {};
}

Status WorkerQueue::execute(const FillCommand& command) {
  const Bytes dst(command.dst, context_);
  OPENREG_RETURN_IF_ERROR(dst.check());
  std::memset(dst.get(), command.value, command.count);
  return {};
}

Status WorkerQueue::execute(const HostCommand& command) {
  const DeviceCodeScope scope;
  try {
    command.function(command.data);
  } catch (...) {
    return failure(orErrorLaunchFailure, "a host function threw an exception");
  }
  return {};
}

Status WorkerQueue::execute(const WaitCommand& command) {
  const Timeline& other = command.fence.queue->timeline();
  while (!other.wait_for(command.fence.sequence, kCancelPoll)) {
    if (!dropped().ok()) break;
  }
  return {};
}

Status WorkerQueue::execute(const StampCommand& command) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const int64_t time =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  // Later on a stream means a later time, however coarse the clock is.
  last_stamp_ = time > last_stamp_ ? time : last_stamp_ + 1;
  command.stamp->nanoseconds.store(last_stamp_, std::memory_order_release);
  return {};
}

}  // namespace openreg
