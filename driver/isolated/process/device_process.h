// The process of an isolated device, as its parent sees it: started, watched,
// ended. Knows nothing of what the two say to each other.
//
// Note [Processes]
// The parent spawns one zygote, `openreg-device --zygote`, when it first needs
// a device. The zygote is not a child of the program: it leaves its own
// short-lived parent behind, so that a program that waits for any of its
// children, or counts them, never meets it. It loads the libraries that devices
// will need and forks a device whenever asked, which takes milliseconds where
// loading PyTorch takes a quarter of a second. It has one thread, so what it
// forks is in order.
//
// Everybody watches everybody by pidfd: zygote and devices end when the parent
// ends, however that happens, and also when it becomes another program by exec.
// One thread in the parent watches all devices; the zygote reaps them and says
// how they ended. A zygote that dies takes no device with it: the next start
// makes a new one, and of the old one's devices nobody can say any more how
// they ended, only that they did.
//
// All that the processes share is memory without a name and descriptors, so
// nothing can be left over in the file system.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"

namespace openreg {

struct WatchedProcess;

// The options that a device process is started with.
struct StartOptions {
  // The number of the device; names the process.
  int device = 0;
  // Descriptors that the device gets duplicates of, in this order
  // (StartUp::fds). They stay the caller's. At most 64.
  std::vector<int> fds;
  // Any bytes, at most 64 KiB; the device finds them in StartUp::block.
  std::string block;
  // Called once if process `pid` ends without having been told to by end() or
  // by the destructor; `reason` goes on from "the device process", such as
  //   "was killed by signal 9 (SIGKILL)"
  //   "exited with code 3"
  //   "has not answered for 1000 ms"
  //   "has ended for an unknown reason"
  // On the thread that watches all devices: it must not block, and must not
  // destroy this object or start another. May run before start() has returned.
  std::function<void(pid_t pid, const std::string& reason)> on_death;
  // How long the process may give no sign of life before it is killed and
  // reported (Note [Signs of life]); 0: for ever. Ten times as long if it only
  // waits for a processor or a disk; for ever while a debugger holds it.
  std::chrono::milliseconds heartbeat_limit{1000};
};

// One device process. Thread-safe. In a forked child of the program it is dead
// matter: nothing there disturbs the process.
class DeviceProcess {
 public:
  // Starts a process that runs serve_device with what `options` say, and
  // returns when it exists, not when it is ready. Blocks for about ten
  // milliseconds; the first one for as long as the zygote takes to start.
  //   orErrorNotInitialized  no process can be started; the message says why
  static Status start(StartOptions options,
                      std::unique_ptr<DeviceProcess>* process);

  // Kills the process if it is still there. on_death is not called any more
  // afterwards; waits for a call that is under way.
  ~DeviceProcess();

  DeviceProcess(const DeviceProcess&) = delete;
  DeviceProcess& operator=(const DeviceProcess&) = delete;

  // Stays the same after the end.
  pid_t pid() const { return pid_; }

  // False once the end of the process was noticed.
  bool is_alive() const;

  // Kills the process. If it was alive, on_death gets `reason`.
  void kill(const std::string& reason);

  // Asks the process to end (StartUp::on_end_request) and doesn't wait for it.
  // on_death is not called any more.
  void request_end();

  // Asks the process to end, waits for at most `patience`, then kills it.
  // Returns whether the process ended by itself; it is gone in either case,
  // unless the system cannot even kill it.
  bool end(std::chrono::milliseconds patience);

 private:
  DeviceProcess(std::shared_ptr<WatchedProcess> watched, pid_t pid);

  const std::shared_ptr<WatchedProcess> watched_;
  const pid_t pid_;
};

// Loads shared objects into the zygote, with RTLD_NOW | RTLD_GLOBAL, in this
// order, so that devices started later find them loaded. Blocks until they
// are. Each path is absolute and loaded once; a zygote that replaces a dead one
// loads them again. Thread-safe.
//   orErrorNotInitialized  the zygote cannot be started
//   orErrorInvalidValue    a path cannot be loaded; those before it are. One
//                          that kills the zygote counts as such.
Status preload(const std::vector<std::string>& paths);

// Ends the zygote; call it at the end of the program, after the devices have
// ended. Waits a moment for it, no more. Thread-safe.
void end_zygote();

}  // namespace openreg
