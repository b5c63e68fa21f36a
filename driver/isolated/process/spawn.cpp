#include "isolated/process/spawn.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "isolated/process/message.h"
#include "openreg/version.h"

namespace openreg {

namespace {

// Long, because a busy machine may take its time and only a broken program is
// ever waited for so long.
constexpr std::chrono::seconds kStartPatience{30};

Status cannot_start(const std::string& reason) {
  return failure(orErrorNotInitialized,
                 "cannot start the device process '%s': %s",
                 device_program().c_str(), reason.c_str());
}

// Settings of posix_spawn: a session of its own, so that a terminal's Ctrl-C
// reaches the program alone; signals as at the start of the system; standard
// input empty; the socket where main() expects it.
class SpawnSettings {
 public:
  explicit SpawnSettings(int socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, socket, kZygoteSocket);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETSIGMASK |
                                               POSIX_SPAWN_SETSID);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // Returns an errno.
  int spawn(const char* program, pid_t* pid) const {
    std::string name = program;
    std::string flag = kZygoteFlag;
    char* const arguments[] = {name.data(), flag.data(), nullptr};
    return posix_spawn(pid, program, &actions_, &attributes_, arguments,
                       environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Meets a zygote that has been spawned. Fills in `why` if it doesn't answer.
bool greet(const Descriptor& parent, Zygote* zygote, std::string* why) {
  const int socket = zygote->socket.get();
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  Message ready;
  *why = "it has ended";
  if (!send_message(socket, Message{}, {parent.get()})) return false;
  pollfd event{socket, POLLIN, 0};
  int events = 0;
  do {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    events = poll(&event, 1, std::max(0, static_cast<int>(left.count())));
  } while (events < 0 && errno == EINTR);
  if (events == 0) {
    *why = "it does not answer";
    return false;
  }
  if (!receive_message(socket, &ready)) return false;
  if (ready.kind != MessageKind::kReady || ready.detail != OPENREG_VERSION ||
      ready.fds.size() != 1) {
    *why = "it belongs to another version of the driver";
    return false;
  }
  zygote->pid = ready.value;
  zygote->process = std::move(ready.fds[0]);
  return true;
}

// Waits for the short-lived process that the zygote leaves behind. Somebody
// else in this program may have done so already.
std::string await_first_process(pid_t pid) {
  siginfo_t end{};
  int result = 0;
  do {
    result = waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED);
  } while (result != 0 && errno == EINTR);
  if (result != 0 || (end.si_code == CLD_EXITED && end.si_status == 0)) {
    return {};
  }
  return describe_end(end.si_code, end.si_status);
}

}  // namespace

Status spawn_zygote(Zygote* zygote) {
  const std::string program = device_program();
  DescriptorPair sockets = make_socket_pair();
  const Descriptor parent = open_process(getpid());
  if (!sockets.first || !parent) {
    return cannot_start(std::strerror(errno));
  }
  pid_t pid = 0;
  const int error =
      SpawnSettings(sockets.second.get()).spawn(program.c_str(), &pid);
  if (error != 0) return cannot_start(std::strerror(error));
  sockets.second.reset();
  zygote->socket = std::move(sockets.first);

  std::string why;
  const bool ready = greet(parent, zygote, &why);
  if (!ready) ::kill(pid, SIGKILL);
  const std::string end = await_first_process(pid);
  if (ready) return {};
  return cannot_start(end.empty() ? why : why + " (it " + end + ")");
}

std::string device_program() {
  const char* const chosen = std::getenv("OPENREG_DEVICE_PROGRAM");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  Dl_info library{};
  const auto here = reinterpret_cast<const void*>(&device_program);
  if (dladdr(here, &library) == 0) return "openreg-device";
  std::error_code error;
  const auto path = std::filesystem::canonical(library.dli_fname, error);
  return path.parent_path() / "openreg-device";
}

std::string describe_end(int code, int status) {
  if (code == CLD_EXITED) {
    return format_string("exited with code %d", status);
  }
  const char* const name = sigabbrev_np(status);
  return format_string("was killed by signal %d%s%s%s", status,
                       name != nullptr ? " (SIG" : "",
                       name != nullptr ? name : "", name != nullptr ? ")" : "");
}

bool reap(const Descriptor& process, std::string* reason) {
  siginfo_t end{};
  if (waitid(P_PIDFD, static_cast<id_t>(process.get()), &end,
             WEXITED | WNOHANG) != 0 ||
      end.si_pid == 0) {
    return false;
  }
  *reason = describe_end(end.si_code, end.si_status);
  return true;
}

}  // namespace openreg
