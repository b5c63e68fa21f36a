#include "support/test_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace openreg::test {

namespace {

// Before anything starts a process.
[[maybe_unused]] const int program_chosen =
    setenv("OPENREG_DEVICE_PROGRAM", OPENREG_TEST_DEVICE, /*overwrite=*/0);

bool is_readable_within(int fd, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  pollfd event{fd, POLLIN, 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() < 0) return false;
    if (poll(&event, 1, static_cast<int>(left.count())) > 0) return true;
  }
}

}  // namespace

TestProcess::TestProcess(const std::string& act, int device,
                         std::chrono::milliseconds heartbeat_limit) {
  DescriptorPair line = make_pipe();
  StartOptions options;
  options.device = device;
  options.fds = {line.second.get()};
  options.block = act;
  options.heartbeat_limit = heartbeat_limit;
  options.on_death = [news = news_](pid_t, const std::string& reason) {
    const std::lock_guard lock(news->mutex);
    news->reasons.push_back(reason);
    news->changed.notify_all();
  };
  status_ = DeviceProcess::start(std::move(options), &process_);
  line.second.reset();
  if (status_.ok()) line_ = read_line(line.first.get());
}

std::optional<std::string> TestProcess::await_death(
    std::chrono::milliseconds patience) {
  std::unique_lock lock(news_->mutex);
  news_->changed.wait_for(lock, patience,
                          [this] { return !news_->reasons.empty(); });
  if (news_->reasons.empty()) return std::nullopt;
  return news_->reasons.front();
}

int TestProcess::deaths() {
  const std::lock_guard lock(news_->mutex);
  return static_cast<int>(news_->reasons.size());
}

bool ProcessHandle::ends_within(std::chrono::milliseconds patience) const {
  return !process_ || is_readable_within(process_.get(), patience);
}

RunningChild::RunningChild(const std::string& name) {
  DescriptorPair input = make_pipe();
  DescriptorPair output = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.first.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.second.get(),
                                   STDOUT_FILENO);
  std::string program = "/proc/self/exe";
  std::string argument = "--child=" + name;
  char* argv[] = {program.data(), argument.data(), nullptr};
  posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  input_ = std::move(input.second);
  output_ = std::move(output.first);
}

RunningChild::~RunningChild() {
  if (pid_ == 0) return;
  send(SIGKILL);
  await();
}

std::string RunningChild::read_line() { return test::read_line(output_.get()); }

void RunningChild::write_line() const {
  static_cast<void>(!write(input_.get(), "\n", 1));
}

void RunningChild::send(int signal) const { ::kill(pid_, signal); }

int RunningChild::await() {
  int status = 0;
  waitpid(std::exchange(pid_, 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string read_line(int fd) {
  std::string line;
  char byte = 0;
  while (is_readable_within(fd, kPatience) && read(fd, &byte, 1) == 1 &&
         byte != '\n') {
    line += byte;
  }
  return line;
}

std::vector<int> open_descriptors() {
  std::vector<int> result;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target =
        std::filesystem::read_symlink(entry.path(), error).string();
    if (error || target.find("/fd") != target.npos) continue;
    result.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return result;
}

pid_t zygote_of(pid_t device) {
  std::ifstream file("/proc/" + std::to_string(device) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("PPid:", 0) == 0) return std::atoi(line.c_str() + 5);
  }
  return 0;
}

}  // namespace openreg::test
