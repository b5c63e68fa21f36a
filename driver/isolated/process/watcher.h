// The parent's thread that watches all device processes, and the connection to
// the zygote, which only that thread reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.h"
#include "core/status.h"
#include "core/thread_safety.h"
#include "isolated/process/beat_page.h"
#include "isolated/process/device_process.h"
#include "isolated/process/message.h"
#include "isolated/process/spawn.h"

namespace openreg {

using SteadyTime = std::chrono::steady_clock::time_point;

// The state of one process. The first group stays as it is; the rest is
// guarded by the watcher's mutex.
struct WatchedProcess {
  StartOptions options;
  uint32_t serial = 0;
  Descriptor life;  // the pipe's end to write to
  BeatPage beats;

  pid_t pid = 0;                    // 0 until the zygote has answered
  Descriptor process;               // its pidfd, from then on
  bool end_is_wanted = false;       // by request_end() or the destructor
  std::string reason;               // if something knows it
  std::optional<SteadyTime> ended;  // when its end was noticed
  bool is_gone = false;             // and whether that was told
  bool is_being_told = false;       // on_death runs
  uint32_t last_beat = 0;
  int missed_beats = 0;
};

// Thread-safe. There is one, for ever.
class Watcher {
 public:
  static Watcher& get();
  static Watcher* get_if_begun();

  // DeviceProcess::start, preload and end_zygote.
  Status start(StartOptions options, std::shared_ptr<WatchedProcess>* process,
               pid_t* pid);
  Status preload(const std::string& path);
  void end_zygote();

  bool is_alive(const WatchedProcess& process);
  void request_end(WatchedProcess& process);
  void kill(WatchedProcess& process, const std::string& reason);

  // Waits until the process is gone. False if it isn't after `patience`.
  bool await_end(WatchedProcess& process, std::chrono::milliseconds patience);

  // Kills a process, waits until it is gone and its callback has returned, and
  // forgets it.
  void forget(WatchedProcess& process);

 private:
  using Process = std::shared_ptr<WatchedProcess>;

  Watcher();

  // For those who ask the zygote for something.
  //
  // Makes sure that there is a zygote, with everything preloaded.
  Status ensure_zygote() REQUIRES(asking_);
  // Sends a request and waits for the answer; none if the zygote dies.
  std::optional<Message> request(const Message& message,
                                 const std::vector<int>& fds) REQUIRES(asking_);
  std::optional<Message> request_preload(const std::string& path)
      REQUIRES(asking_);
  // An answer's pid is 0 if the zygote could not fork.
  std::optional<Message> request_start(const Process& process, int life,
                                       int beats) REQUIRES(asking_);
  // Makes what a process needs and asks for it. `*died` if the zygote did.
  Status try_start(const Process& process, bool* died) REQUIRES(asking_);

  // For the thread. Two of them are without the lock for a while.
  void run();
  void wait_for_events() REQUIRES(mutex_);
  int poll_timeout(SteadyTime now) const REQUIRES(mutex_);
  void read_zygote() REQUIRES(mutex_);
  void note_end(WatchedProcess& process) REQUIRES(mutex_);
  void look_at_beats() REQUIRES(mutex_);
  void tell_deaths() REQUIRES(mutex_);
  // Whether everything is known of an end that will ever be.
  bool is_finished(const WatchedProcess& process, SteadyTime now) const
      REQUIRES(mutex_);

  Mutex asking_;  // before mutex_; held by those who use the zygote
  std::vector<std::string> preloaded_ GUARDED_BY(asking_);

  Mutex mutex_;
  ConditionVariable changed_;  // anything below
  std::optional<Zygote> zygote_ GUARDED_BY(mutex_);
  uint32_t next_serial_ GUARDED_BY(mutex_) = 1;
  // The request that is being waited for, and the answer to it.
  uint32_t awaited_ GUARDED_BY(mutex_) = 0;
  std::optional<Message> answer_ GUARDED_BY(mutex_);
  std::map<uint32_t, Process> processes_ GUARDED_BY(mutex_);
  SteadyTime next_look_ GUARDED_BY(mutex_);
  const Descriptor wake_up_;
};

}  // namespace openreg
