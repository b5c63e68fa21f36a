#include "support/support.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

extern char** environ;

namespace openreg::test {

namespace {

// More than any child needs, less than CTest gives a test.
constexpr unsigned kChildSeconds = 100;

std::map<std::string, std::function<int()>>& children() {
  static auto* const map = new std::map<std::string, std::function<int()>>;
  return *map;
}

}  // namespace

orTestingCounters counters() {
  orTestingCounters result{};
  OR_EXPECT_OK(orTestingGetCounters(&result));
  return result;
}

std::string describe(orError_t code) {
  return std::string(orGetErrorName(code)) + ": " + orGetLastErrorMessage();
}

void DriverTest::SetUp() {
  int count = 0;
  OR_ASSERT_OK(orGetDeviceCount(&count));
  ASSERT_GE(count, 2) << "the tests need OPENREG_DEVICES=2, the default";
  OR_ASSERT_OK(orSetDevice(0));
  before_ = counters();
}

void DriverTest::TearDown() {
  // Devices that no test has used stay unused.
  const int open_devices = static_cast<int>(counters().openDevices);
  for (int device = open_devices - 1; device >= 0; --device) {
    OR_EXPECT_OK(orSetDevice(device));
    OR_EXPECT_OK(orDeviceSynchronize());
  }
  orGetLastError();
  if (!check_leftovers_) return;
  const orTestingCounters after = counters();
  EXPECT_EQ(after.liveStreams, before_.liveStreams);
  EXPECT_EQ(after.liveEvents, before_.liveEvents);
  EXPECT_EQ(after.liveModules, before_.liveModules);
  EXPECT_EQ(after.liveAllocations, before_.liveAllocations);
  EXPECT_EQ(after.liveHostAllocations, before_.liveHostAllocations);
}

char* device_malloc(size_t bytes) {
  void* result = nullptr;
  OR_EXPECT_OK(orMalloc(&result, bytes));
  return static_cast<char*>(result);
}

std::vector<char> pattern(size_t count, unsigned seed) {
  std::vector<char> result(count);
  uint32_t state = seed * 2654435761u + 1;
  for (char& byte : result) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return result;
}

orFunction_t builtin(const char* name) {
  orModule_t module = nullptr;
  orFunction_t function = nullptr;
  OR_EXPECT_OK(orModuleGetBuiltin(&module));
  OR_EXPECT_OK(orModuleGetFunction(&function, module, name));
  return function;
}

orError_t launch_failing(orStream_t stream, orError_t code,
                         const char* message) {
  orTestingFailArgs args{};
  args.code = code;
  std::snprintf(args.message, sizeof args.message, "%s", message);
  return launch(builtin("fail"), args, stream);
}

DeviceLog::DeviceLog(uint32_t capacity)
    : capacity_(capacity), next_(1), log_(capacity) {
  next_.set({0});
}

void DeviceLog::append(uint32_t value, orStream_t stream) {
  const orTestingAppendArgs args{next_.get(), log_.get(), capacity_, value};
  OR_EXPECT_OK(launch(builtin("append"), args, stream));
}

std::vector<uint32_t> DeviceLog::entries() const {
  OR_EXPECT_OK(orDeviceSynchronize());
  std::vector<uint32_t> result = log_.values();
  result.resize(std::min(next_.values()[0], capacity_));
  return result;
}

bool register_child(const char* name, std::function<int()> body) {
  return children().emplace(name, std::move(body)).second;
}

int child_main(const std::string& name) {
  // A child that hangs does not outlive the test that waits for it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(kChildSeconds);
  const auto found = children().find(name);
  if (found == children().end()) {
    std::fprintf(stderr, "no OPENREG_CHILD is called %s\n", name.c_str());
    return 2;
  }
  return found->second();
}

ChildResult run_child(
    const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& env) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [key, value] : env) variables[key] = value;
  std::vector<std::string> lines;
  for (const auto& [key, value] : variables) lines.push_back(key + "=" + value);
  std::vector<char*> envp;
  for (std::string& line : lines) envp.push_back(line.data());
  envp.push_back(nullptr);

  ChildResult result;
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::string program = "/proc/self/exe";
  std::string argument = "--child=" + name;
  char* argv[] = {program.data(), argument.data(), nullptr};
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  EXPECT_EQ(error, 0) << "could not start a child: " << std::strerror(error);
  char buffer[4096];
  ssize_t got = 0;
  while (error == 0 && (got = read(ends[0], buffer, sizeof buffer)) > 0) {
    result.output.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  if (error != 0) return result;
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

int stress_scale() {
  const char* text = std::getenv("OPENREG_STRESS_SCALE");
  return text != nullptr ? std::max(1, std::atoi(text)) : 1;
}

bool is_isolated() {
  const char* const driver = std::getenv("OPENREG_DRIVER");
  return driver != nullptr && std::string(driver) == "isolated";
}

bool is_sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

}  // namespace openreg::test
