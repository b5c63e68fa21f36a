// A device process of the tests, and what the system says about processes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.h"
#include "isolated/process/device_process.h"

namespace openreg::test {

// How long a test waits for what should come at once.
inline constexpr std::chrono::seconds kPatience{20};

// What the tests allow between a death and its report.
inline constexpr std::chrono::milliseconds kPromptly{1000};

// Starts openreg_test_device with an act (test_device.cpp) and waits for its
// first line.
class TestProcess {
 public:
  explicit TestProcess(const std::string& act, int device = 0,
                       std::chrono::milliseconds heartbeat_limit =
                           StartOptions{}.heartbeat_limit);

  const Status& status() const { return status_; }
  const std::string& line() const { return line_; }
  pid_t pid() const { return process_->pid(); }
  DeviceProcess* operator->() { return process_.get(); }
  void destroy() { process_.reset(); }

  // Waits for on_death; nothing if it isn't called within `patience`.
  std::optional<std::string> await_death(
      std::chrono::milliseconds patience = kPatience);
  // How often on_death was called.
  int deaths();

 private:
  struct News {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> reasons;
  };

  const std::shared_ptr<News> news_ = std::make_shared<News>();
  Status status_;
  std::string line_;
  std::unique_ptr<DeviceProcess> process_;
};

// Watches a process that need not be a child.
class ProcessHandle {
 public:
  explicit ProcessHandle(pid_t pid) : process_(open_process(pid)) {}
  // Also true for one that has ended and was not reaped, and for one that
  // didn't exist to begin with.
  bool ends_within(std::chrono::milliseconds patience) const;

 private:
  Descriptor process_;
};

// A child of this program that runs an OPENREG_CHILD and is talked to while it
// runs: by lines through standard input and output. Killed at the end of the
// scope.
class RunningChild {
 public:
  explicit RunningChild(const std::string& name);
  ~RunningChild();
  RunningChild(const RunningChild&) = delete;
  RunningChild& operator=(const RunningChild&) = delete;

  // The next line, without its end; empty if there is none.
  std::string read_line();
  // Sends it an empty line.
  void write_line() const;
  void send(int signal) const;
  // Waits for the end; the exit code, or minus the signal.
  int await();

 private:
  pid_t pid_ = 0;
  Descriptor input_;
  Descriptor output_;
};

// Reads one line. Empty if there is none within kPatience.
std::string read_line(int fd);

// The numbers of the open descriptors of this process.
std::vector<int> open_descriptors();

// The zygote of this process: the one that has forked `device`.
pid_t zygote_of(pid_t device);

}  // namespace openreg::test
