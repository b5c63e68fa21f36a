#include "core/context.h"

#include <algorithm>
#include <utility>

#include "core/stream.h"

namespace openreg {

Context::Context(const Config& config, int device, uint64_t epoch,
                 Context* previous, Surroundings& surroundings,
                 HardwareMaker make_hardware)
    : config_(config),
      device_(device),
      epoch_(epoch),
      previous_(previous),
      surroundings_(surroundings),
      memory_(device),
      failures_(config.errors),
      hardware_(make_hardware(*this)) {}

Context::Context(const Config& config, int device, uint64_t epoch,
                 Surroundings& surroundings)
    : Context(
          config, device, epoch, nullptr, surroundings,
          [](Context& /*context*/) { return std::unique_ptr<Hardware>(); }) {}

Context::~Context() = default;

std::shared_ptr<Stream> Context::create_stream(unsigned int flags,
                                               int priority) {
  const int clamped = std::clamp(priority, kGreatestPriority, kLeastPriority);
  std::shared_ptr<Queue> queue = hardware_->create_queue(clamped);
  if (queue == nullptr) return nullptr;
  auto stream = std::make_shared<Stream>(*this, queue, flags, clamped,
                                         /*is_default=*/false);
  queues_.add(std::move(queue), stream->is_blocking());
  return stream;
}

Stream& Context::default_stream() {
  Stream* stream = default_stream_.load(std::memory_order_acquire);
  if (stream != nullptr) return *stream;
  const MutexLock lock(mutex_);
  if (owned_default_stream_ == nullptr) {
    std::shared_ptr<Queue> queue = hardware_->create_queue(kLeastPriority);
    owned_default_stream_ = std::make_shared<Stream>(
        *this, queue, orStreamDefault, kLeastPriority, /*is_default=*/true);
    queues_.add(std::move(queue), /*blocking=*/false);
    default_stream_.store(owned_default_stream_.get(),
                          std::memory_order_release);
  }
  return *owned_default_stream_;
}

namespace {

// Makes `stream` wait for a point of another one.
Status hold(const Stream& stream, Fence fence) {
  Submission submission;
  return stream.queue().submit(WaitCommand{std::move(fence)}, submission);
}

}  // namespace

Status Context::order(const Stream& stream) {
  if (!queues_.has_blocking()) [[likely]]
    return {};
  if (stream.is_blocking()) {
    const Stream* first = default_stream_.load(std::memory_order_acquire);
    if (first == nullptr || first->queue().idle()) return {};
    return hold(stream, first->fence());
  }
  if (!stream.is_default()) return {};
  for (Fence& fence : queues_.busy_blocking()) {
    OPENREG_RETURN_IF_ERROR(hold(stream, std::move(fence)));
  }
  return {};
}

Status Context::allocate(size_t size, void** pointer) {
  OPENREG_RETURN_IF_ERROR(memory_.allocate(size, pointer));
  const auto address = reinterpret_cast<uintptr_t>(*pointer);
  Status status = hardware_->add_memory(address, size);
  if (status.ok()) return status;
  *pointer = nullptr;
  memory_.heap().end_free(address);
  return status;
}

void Context::end_free(uintptr_t address) {
  // In this order: nobody else is given the address before the device has been
  // told that it is free.
  hardware_->remove_memory(address);
  memory_.heap().end_free(address);
}

void Context::close() {
  closed_.store(true, std::memory_order_release);
  hardware_->close();
  queues_.close();
  {
    std::vector<Fence> visits;  // go after the lock
    const MutexLock lock(mutex_);
    visits.swap(visits_);
  }
  memory_.close();
}

void Context::note_visit(Fence fence) {
  const MutexLock lock(mutex_);
  std::erase_if(visits_, is_done);
  if (!is_done(fence)) visits_.push_back(std::move(fence));
}

void Context::wait_for_visits() {
  std::vector<Fence> visits;
  {
    const MutexLock lock(mutex_);
    visits = visits_;
  }
  for (const Fence& fence : visits) fence.queue->wait(fence.sequence);
  memory_.wait_for_visitors();
}

bool Context::set_access(int device, bool allowed) {
  const uint64_t before =
      allowed ? peers_.fetch_or(bit(device)) : peers_.fetch_and(~bit(device));
  return ((before & bit(device)) != 0) != allowed;
}

}  // namespace openreg
