// The seam between what every driver shares and what makes one: how queues run
// and how kernels are loaded. One engine serves one life of a device.
#pragma once

#include <memory>

#include "core/command.h"
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

// Thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual std::shared_ptr<Queue> create_queue(int priority) = 0;

  //   orErrorInvalidValue  the file is missing or is not a kernel module
  virtual Status load_module(const char* path,
                             std::shared_ptr<ModuleImage>* image) = 0;
  virtual std::shared_ptr<ModuleImage> builtin_module() = 0;

  // Kernels that run at a time.
  virtual int places() const = 0;
  // Whether kernels can be allowed to use the memory of other devices.
  virtual bool can_access_peers() const = 0;
};

// Makes the engine of the in-process driver. `context` outlives it.
std::unique_ptr<Engine> make_inprocess_engine(Context& context);

}  // namespace openreg
