// Requests of the program's threads to the watcher.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "isolated/process/watcher.h"

namespace openreg {

namespace {

// A zygote that takes longer, and be it for a large library on a slow disk, is
// broken.
constexpr std::chrono::seconds kAnswerPatience{60};

// How long the end of the program waits for the zygote's.
constexpr std::chrono::milliseconds kZygoteEndPatience{200};

// How long a killed process may take to go. A large memory takes a while.
constexpr std::chrono::seconds kKillPatience{5};

void send_kill(const Descriptor& process) {
  syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

Status cannot_start(int device, const std::string& reason) {
  return failure(orErrorNotInitialized,
                 "cannot start a process for device %d: %s", device,
                 reason.c_str());
}

}  // namespace

Status Watcher::ensure_zygote() {
  {
    const MutexLock lock(mutex_);
    if (zygote_) return {};
  }
  Zygote zygote;
  OPENREG_RETURN_IF_ERROR(spawn_zygote(&zygote));
  {
    const MutexLock lock(mutex_);
    zygote_ = std::move(zygote);
  }
  const uint64_t one = 1;
  static_cast<void>(!write(wake_up_.get(), &one, sizeof(one)));
  for (const std::string& path : preloaded_) {
    // What was loaded once and can't be any more, the device itself will miss.
    if (!request_preload(path)) {
      return failure(orErrorNotInitialized,
                     "the process that starts devices has ended while it "
                     "loaded '%s'",
                     path.c_str());
    }
  }
  return {};
}

std::optional<Message> Watcher::request(const Message& message,
                                        const std::vector<int>& fds) {
  const MutexLock lock(mutex_);
  if (!zygote_) return std::nullopt;
  answer_.reset();
  awaited_ = message.serial;
  const bool is_answered =
      send_message(zygote_->socket.get(), message, fds) &&
      changed_.wait_for(mutex_, kAnswerPatience, [this]() REQUIRES(mutex_) {
        return answer_ || !zygote_;
      });
  if (!is_answered) {
    send_kill(zygote_->process);
    changed_.wait(mutex_, [this]() REQUIRES(mutex_) { return !zygote_; });
  }
  awaited_ = 0;
  return std::exchange(answer_, std::nullopt);
}

std::optional<Message> Watcher::request_preload(const std::string& path) {
  Message message;
  message.kind = MessageKind::kPreload;
  message.text = path;
  {
    const MutexLock lock(mutex_);
    message.serial = next_serial_++;
  }
  return request(message, {});
}

Status Watcher::preload(const std::string& path) {
  const MutexLock asking(asking_);
  if (std::find(preloaded_.begin(), preloaded_.end(), path) !=
      preloaded_.end()) {
    return {};
  }
  OPENREG_RETURN_IF_ERROR(ensure_zygote());
  const std::optional<Message> answer = request_preload(path);
  if (!answer) {
    return failure(orErrorInvalidValue, "loading '%s' has ended the process",
                   path.c_str());
  }
  if (!answer->text.empty()) {
    return failure(orErrorInvalidValue, "cannot load '%s': %s", path.c_str(),
                   answer->text.c_str());
  }
  preloaded_.push_back(path);
  return {};
}

std::optional<Message> Watcher::request_start(const Process& process, int life,
                                              int beats) {
  Message message;
  message.kind = MessageKind::kStart;
  message.value = process->options.device;
  message.text = process->options.block;
  std::vector<int> fds = {life, beats};
  fds.insert(fds.end(), process->options.fds.begin(),
             process->options.fds.end());
  {
    const MutexLock lock(mutex_);
    message.serial = process->serial = next_serial_++;
    processes_.emplace(process->serial, process);
  }
  std::optional<Message> answer = request(message, fds);
  if (answer && answer->value != 0) return answer;
  const MutexLock lock(mutex_);
  processes_.erase(process->serial);
  return answer;
}

Status Watcher::try_start(const Process& process, bool* died) {
  const int device = process->options.device;
  OPENREG_RETURN_IF_ERROR(ensure_zygote());
  DescriptorPair life = make_pipe();
  const Descriptor memory = make_shared_memory("openreg-beats", kBeatPageSize);
  process->beats = memory ? BeatPage::map(memory) : BeatPage();
  if (!life.first || !process->beats) {
    return cannot_start(device, std::strerror(errno));
  }
  process->life = std::move(life.second);
  const std::optional<Message> answer =
      request_start(process, life.first.get(), memory.get());
  *died = !answer;
  if (!answer) {
    return cannot_start(device, "the process that starts devices has ended");
  }
  if (answer->value != 0) return {};
  return cannot_start(device, std::strerror(answer->detail));
}

Status Watcher::start(StartOptions options,
                      std::shared_ptr<WatchedProcess>* process, pid_t* pid) {
  if (options.fds.size() > kMaxUserFds || options.block.size() > kMaxText) {
    return cannot_start(options.device, "too much to start it with");
  }
  const MutexLock asking(asking_);
  auto started = std::make_shared<WatchedProcess>();
  started->options = std::move(options);
  bool died = false;
  Status status = try_start(started, &died);
  // A zygote may be killed as any process; another one serves as well.
  if (died) status = try_start(started, &died);
  OPENREG_RETURN_IF_ERROR(std::move(status));
  const MutexLock lock(mutex_);
  *pid = started->pid;
  *process = std::move(started);
  return {};
}

void Watcher::end_zygote() {
  const MutexLock lock(mutex_);
  if (!zygote_) return;
  shutdown(zygote_->socket.get(), SHUT_WR);
  changed_.wait_for(mutex_, kZygoteEndPatience,
                    [this]() REQUIRES(mutex_) { return !zygote_; });
}

bool Watcher::is_alive(const WatchedProcess& process) {
  const MutexLock lock(mutex_);
  return !process.ended;
}

void Watcher::request_end(WatchedProcess& process) {
  const MutexLock lock(mutex_);
  if (process.is_gone || std::exchange(process.end_is_wanted, true)) return;
  const char byte = 'E';
  static_cast<void>(!write(process.life.get(), &byte, 1));
}

void Watcher::kill(WatchedProcess& process, const std::string& reason) {
  const MutexLock lock(mutex_);
  if (process.ended) return;
  if (process.reason.empty()) process.reason = reason;
  send_kill(process.process);
}

bool Watcher::await_end(WatchedProcess& process,
                        std::chrono::milliseconds patience) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(mutex_, patience, [&] { return process.is_gone; });
}

void Watcher::forget(WatchedProcess& process) {
  const MutexLock lock(mutex_);
  process.end_is_wanted = true;
  if (!process.is_gone) send_kill(process.process);
  changed_.wait_for(mutex_, kKillPatience, [&] { return process.is_gone; });
  changed_.wait(mutex_, [&] { return !process.is_being_told; });
  processes_.erase(process.serial);
}

}  // namespace openreg
