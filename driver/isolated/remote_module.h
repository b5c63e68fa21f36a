// Modules that are loaded in a device process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "isolated/remote_queue.h"

namespace openreg {

// Thread-safe. Unloaded in the device when it goes.
class RemoteModule final : public ModuleImage,
                           public std::enable_shared_from_this<RemoteModule> {
 public:
  // `requests` is the control queue of the device.
  RemoteModule(std::shared_ptr<RemoteQueue> requests, uint32_t number)
      : requests_(std::move(requests)), number_(number) {}
  ~RemoteModule() override;

  // Loads the shared object at `path`.
  Status load(const char* path);

  Status find(const char* name, std::shared_ptr<const Kernel>* kernel) override;

 private:
  const std::shared_ptr<RemoteQueue> requests_;
  const uint32_t number_;
  bool loaded_ = false;

  std::mutex mutex_;
  uint32_t next_ = 0;  // guarded by mutex_
  // Numbers of the kernels that were found; guarded by mutex_.
  std::map<std::string, uint32_t> found_;
};

// The absolute paths of libraries that the shared object at `path` needs and
// that this process has loaded.
std::vector<std::string> loaded_needs(const char* path);

}  // namespace openreg
