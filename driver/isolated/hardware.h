// The isolated driver: the device is a process of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/hardware.h"
#include "core/thread_safety.h"
#include "isolated/channel.h"
#include "isolated/process/device_process.h"
#include "isolated/remote_queue.h"

namespace openreg {

// Thread-safe.
class IsolatedHardware final : public Hardware {
 public:
  explicit IsolatedHardware(Context& context);
  ~IsolatedHardware() override;
  IsolatedHardware(const IsolatedHardware&) = delete;
  IsolatedHardware& operator=(const IsolatedHardware&) = delete;

  Status open() override;
  void close() override;

  bool has_bytes() const override { return false; }
  Status add_memory(uintptr_t address, size_t size) override;
  void remove_memory(uintptr_t address) override;
  std::shared_ptr<Timestamp> create_stamp() override;
  pid_t process() override;
  void add_counters(DeviceCounters& sum) override;
  HardwareLimits limits() const override {
    return {.queues = wire::kFenceSlots, .stamps = wire::kStamps};
  }

  std::shared_ptr<Queue> create_queue(int priority) override {
    return create_queue(priority, nullptr);
  }
  // A queue that works for a stream of `visitor`, another device, to which lost
  // work is reported. Null if there are too many.
  std::shared_ptr<RemoteQueue> create_visiting_queue(Context& visitor) {
    return create_queue(kLeastPriority, &visitor);
  }
  Status load_module(const char* path,
                     std::shared_ptr<ModuleImage>* image) override;
  std::shared_ptr<ModuleImage> builtin_module() override { return builtin_; }

  int places() const override;
  bool can_access_peers() const override { return false; }

 private:
  static constexpr uint32_t kBuiltinModule = 0;

  // Starts the process, for the first command; failures are reported to
  // callers.
  void start_process();
  std::shared_ptr<RemoteQueue> create_queue(int priority, Context* visitor);
  // The program's half of that. `visitor` may be null.
  std::shared_ptr<RemoteQueue> make_queue(std::shared_ptr<Channel> channel,
                                          Context* visitor);
  std::shared_ptr<Channel> channel();
  // The device process has ended by itself.
  void on_death(pid_t pid, const std::string& reason);
  // Nothing can be asked of the device any more; callers get `why`.
  void lose(const Status& why);

  Context& context_;
  std::shared_ptr<RemoteQueue> control_;  // set by open()
  std::shared_ptr<ModuleImage> builtin_;  // set by open()
  std::atomic<uint32_t> next_module_{kBuiltinModule + 1};

  Mutex mutex_;
  std::shared_ptr<Channel> channel_ GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<RemoteQueue>> queues_ GUARDED_BY(mutex_);
  Status lost_ GUARDED_BY(mutex_);

  Mutex process_mutex_;
  std::unique_ptr<DeviceProcess> process_ GUARDED_BY(process_mutex_);
};

}  // namespace openreg
