// What core asks of a driver: how queues run and how kernels are loaded. One
// object serves one life of a device.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/command.h"
#include "core/counters.h"
#include "core/queue.h"
#include "core/status.h"

namespace openreg {

class Context;

// A loaded kernel module. Thread-safe.
class ModuleImage {
 public:
  virtual ~ModuleImage() = default;

  //   orErrorInvalidValue  no kernel of that name
  virtual Status find(const char* name,
                      std::shared_ptr<const Kernel>* kernel) = 0;
};

// How many of each can exist at a time.
struct HardwareLimits {
  size_t queues = SIZE_MAX;  // of all devices together
  size_t stamps = SIZE_MAX;
};

// Thread-safe.
class Hardware {
 public:
  virtual ~Hardware() = default;

  // Starts what runs the commands.
  //   orErrorNotInitialized  the system does not give what that needs
  virtual Status open() { return {}; }

  // The life ends: nothing runs any more when this has returned, or when the
  // queues have been joined.
  virtual void close() {}

  // Whether this process holds the bytes of device memory.
  virtual bool has_bytes() const { return true; }

  // Device memory was allocated; is being freed, and no work uses it.
  virtual Status add_memory(uintptr_t /*address*/, size_t /*size*/) {
    return {};
  }
  virtual void remove_memory(uintptr_t /*address*/) {}

  // A stamp that the commands of this hardware can write; null if there are
  // limits().stamps of them.
  virtual std::shared_ptr<Timestamp> create_stamp() {
    return std::make_shared<Timestamp>();
  }

  // The process that runs the commands; 0 if it has ended.
  virtual pid_t process() { return getpid(); }

  // Adds what this hardware's device counts in a process of its own.
  virtual void add_counters(DeviceCounters& /*sum*/) {}

  // Returns null if there are limits().queues of them.
  virtual std::shared_ptr<Queue> create_queue(int priority) = 0;

  virtual HardwareLimits limits() const { return {}; }

  //   orErrorInvalidValue  the file is missing or is not a kernel module
  virtual Status load_module(const char* path,
                             std::shared_ptr<ModuleImage>* image) = 0;
  virtual std::shared_ptr<ModuleImage> builtin_module() = 0;

  // Kernels that run at a time.
  virtual int places() const = 0;
  // Whether kernels can be allowed to use the memory of other devices.
  virtual bool can_access_peers() const = 0;
};

// The hardware of the in-process driver. `context` outlives it.
std::unique_ptr<Hardware> make_inprocess_hardware(Context& context);
// The hardware of the isolated driver, whose device is another process.
std::unique_ptr<Hardware> make_isolated_hardware(Context& context);

using HardwareMaker = std::unique_ptr<Hardware> (*)(Context& context);

}  // namespace openreg
