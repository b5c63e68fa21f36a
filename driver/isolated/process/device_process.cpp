#include "isolated/process/device_process.h"

#include <utility>

#include "core/descriptor.h"
#include "isolated/process/watcher.h"

namespace openreg {

Status DeviceProcess::start(StartOptions options,
                            std::unique_ptr<DeviceProcess>* process) {
  std::shared_ptr<WatchedProcess> watched;
  pid_t pid = 0;
  OPENREG_RETURN_IF_ERROR(
      Watcher::get().start(std::move(options), &watched, &pid));
  process->reset(new DeviceProcess(std::move(watched), pid));
  return {};
}

DeviceProcess::DeviceProcess(std::shared_ptr<WatchedProcess> watched, pid_t pid)
    : watched_(std::move(watched)), pid_(pid) {}

DeviceProcess::~DeviceProcess() {
  if (!is_forked_child()) Watcher::get().forget(*watched_);
}

bool DeviceProcess::is_alive() const {
  return !is_forked_child() && Watcher::get().is_alive(*watched_);
}

void DeviceProcess::kill(const std::string& reason) {
  if (!is_forked_child()) Watcher::get().kill(*watched_, reason);
}

void DeviceProcess::request_end() {
  if (!is_forked_child()) Watcher::get().request_end(*watched_);
}

bool DeviceProcess::end(std::chrono::milliseconds patience) {
  if (is_forked_child()) return false;
  Watcher& watcher = Watcher::get();
  watcher.request_end(*watched_);
  if (watcher.await_end(*watched_, patience)) return true;
  watcher.forget(*watched_);
  return false;
}

Status preload(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    OPENREG_RETURN_IF_ERROR(Watcher::get().preload(path));
  }
  return {};
}

void end_zygote() {
  Watcher* const watcher = Watcher::get_if_begun();
  if (watcher != nullptr && !is_forked_child()) watcher->end_zygote();
}

}  // namespace openreg
