#include "core/runtime.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace openreg {

namespace {

// How long the end of the program waits for a kernel that is still running.
constexpr std::chrono::seconds kExitPatience{5};

}  // namespace

Runtime& Runtime::get() {
  // Never deleted: workers and exit handlers of others may still need it.
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime() : status_(read_config(&config_)) {
  if (!status_.ok()) return;
  if (config_.driver == Driver::kIsolated) host_memory_.share();
  for (int index = 0; index < config_.devices; ++index) {
    devices_.push_back(std::make_unique<Device>(config_, index, *this));
  }
  pthread_atfork(nullptr, nullptr, at_fork_in_child);
  stop_before_later_exit_handlers();
}

void Runtime::stop_before_later_exit_handlers() { std::atexit(at_exit); }

// Note [Forked children]
// A child has the memory of its parent but none of its threads: a lock may be
// held for ever and a queue has no worker. So the child only notes that it is
// one, and every call is refused before it takes a lock. A parent that has only
// counted the devices has nothing that could go wrong.
void Runtime::at_fork_in_child() {
  Runtime& runtime = get();
  const bool used =
      runtime.host_memory_.was_used() ||
      std::any_of(runtime.devices_.begin(), runtime.devices_.end(),
                  [](const auto& d) { return d->was_used(); });
  if (!used) return;
  runtime.state_.store(RuntimeState::kForked, std::memory_order_release);
}

// Exit handlers and static destructors run in the reverse order in which they
// were registered. So this one is registered again behind each module that is
// loaded, and ends the workers before the destructors of the module, and of the
// libraries that it brought, run. The first call does the work.
void Runtime::at_exit() {
  Runtime& runtime = get();
  if (runtime.state() != RuntimeState::kRunning) return;
  runtime.state_.store(RuntimeState::kEnding, std::memory_order_release);
  for (const auto& device : runtime.devices_) {
    Context* context = device->context_if_open();
    if (context == nullptr || context->stop(kExitPatience)) continue;
    std::fprintf(
        stderr,
        "openreg: a kernel on device %d is still running at the end of "
        "the program\n",
        device->index());
  }
}

Context* Runtime::find_owner(const void* pointer) {
  for (const auto& device : devices_) {
    for (Context* life = device->newest(); life != nullptr;
         life = life->previous()) {
      if (life->memory().covers(pointer)) return life;
    }
  }
  return nullptr;
}

void* Runtime::find_pinned(const void* pointer, size_t bytes) const {
  const auto block = host_memory_.find(pointer);
  if (!block) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return block->contains(address, bytes) ? const_cast<void*>(pointer) : nullptr;
}

Status Runtime::builtin_module(Context& context, void** handle) {
  const MutexLock lock(builtin_mutex_);
  // A reset closes the context before it comes here to forget the module.
  if (context.is_closed()) return being_reset(context.device());
  const auto known = builtin_modules_.find(&context);
  if (known != builtin_modules_.end()) {
    *handle = known->second;
    return {};
  }
  *handle = modules_.insert(
      std::make_shared<Module>(context, context.hardware().builtin_module(),
                               /*is_builtin=*/true),
      context.device(), context.epoch());
  if (*handle == nullptr) {
    return failure(
        orErrorOutOfMemory,
        "there are too many modules: a program can have %u at a time",
        modules_.kMaxObjects);
  }
  builtin_modules_.emplace(&context, *handle);
  return {};
}

size_t Runtime::live_modules() {
  const MutexLock lock(builtin_mutex_);
  return modules_.live() - builtin_modules_.size();
}

Status Runtime::free_host(void* pointer) {
  OPENREG_RETURN_IF_ERROR(host_memory_.begin_free(pointer));
  synchronize_all();
  host_memory_.end_free(pointer);
  return {};
}

void Runtime::synchronize_all() {
  for (const auto& device : devices_) {
    if (Context* context = device->context_if_open()) context->synchronize();
  }
}

void Runtime::synchronize_users(Context& context) {
  context.synchronize();
  context.wait_for_visits();
  // Kernels that may use this memory: which of them do, nobody knows.
  for (const auto& device : devices_) {
    Context* const peer = device->context_if_open();
    if (peer != nullptr && peer->may_access(context.device())) {
      peer->synchronize();
    }
  }
}

Status Runtime::reset(Device& device) {
  Status status = device.reset();
  const auto is_old = [](const auto& object) {
    return object.context().is_closed();
  };
  streams_.remove_if(is_old);
  events_.remove_if(is_old);
  functions_.remove_if(
      [](const Function& function) { return function.context.is_closed(); });
  {
    const MutexLock lock(builtin_mutex_);
    modules_.remove_if(is_old);
    std::erase_if(builtin_modules_,
                  [](const auto& entry) { return entry.first->is_closed(); });
  }
  for (const auto& other : devices_) {
    if (Context* context = other->context_if_open()) {
      context->set_access(device.index(), false);
    }
  }
  return status;
}

}  // namespace openreg
