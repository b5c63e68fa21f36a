// Everything that the driver knows, in one place that is made on first use and
// never goes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "core/config.h"
#include "core/device.h"
#include "core/event.h"
#include "core/handle_table.h"
#include "core/host_memory.h"
#include "core/module.h"
#include "core/stream.h"
#include "core/thread_safety.h"

namespace openreg {

// Whether calls are answered at all.
enum class RuntimeState { kRunning, kForked, kEnding };

// Thread-safe.
class Runtime final : public Surroundings {
 public:
  // Reads the environment and makes the devices, without using any.
  static Runtime& get();

  // Why the driver could not start; success if it did.
  const Status& status() const { return status_; }
  RuntimeState state() const { return state_.load(std::memory_order_acquire); }
  bool is_running() const {
    return status_.ok() && state() == RuntimeState::kRunning;
  }

  const Config& config() const { return config_; }
  int device_count() const { return config_.devices; }
  // Requires 0 <= index < device_count().
  Device& device(int index) { return *devices_[static_cast<size_t>(index)]; }

  // The device whose range, of any life, holds `pointer`; null if none does.
  Context* find_owner(const void* pointer) override;
  void* find_pinned(const void* pointer, size_t bytes) const override;

  HostMemory& host_memory() { return host_memory_; }
  HandleTable<Stream>& streams() { return streams_; }
  HandleTable<Event>& events() { return events_; }
  HandleTable<Module>& modules() { return modules_; }
  HandleTable<Function>& functions() { return functions_; }

  // Stores the handle of the built-in module of a context.
  //   orErrorOutOfMemory    the table is full
  //   orErrorInvalidDevice  another thread resets the device
  Status builtin_module(Context& context, void** handle);
  // Modules that users have loaded.
  size_t live_modules();

  // Has the workers end, when the program does, before the exit handlers and
  // static destructors that were registered so far.
  static void stop_before_later_exit_handlers();

  // Frees pinned memory after all work that may use it.
  Status free_host(void* pointer);

  // Waits for all work of every device that was used.
  void synchronize_all();
  // Waits for all work that can use memory of `context`.
  void synchronize_users(Context& context);

  // Resets a device and drops every handle that was made on it.
  Status reset(Device& device);

 private:
  Runtime();
  static void at_exit();
  static void at_fork_in_child();

  Config config_;
  const Status status_;  // of reading config_
  std::atomic<RuntimeState> state_{RuntimeState::kRunning};
  std::vector<std::unique_ptr<Device>> devices_;
  HostMemory host_memory_;
  HandleTable<Stream> streams_{HandleKind::kStream};
  HandleTable<Event> events_{HandleKind::kEvent};
  HandleTable<Module> modules_{HandleKind::kModule};
  HandleTable<Function> functions_{HandleKind::kFunction};

  Mutex builtin_mutex_;
  std::map<const Context*, void*> builtin_modules_ GUARDED_BY(builtin_mutex_);
};

}  // namespace openreg
