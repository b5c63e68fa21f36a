#include "isolated/process/zygote.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "isolated/process/beat_page.h"
#include "isolated/process/life_watch.h"
#include "isolated/process/message.h"
#include "isolated/process/start_up.h"
#include "openreg/version.h"

namespace openreg {

namespace {

// Leaves the process without the exit handlers of what it has preloaded: they
// are for the devices.
constexpr int kParentGone = 0;

class Zygote {
 public:
  explicit Zygote(Descriptor socket) : socket_(std::move(socket)) {}

  // Meets the parent. False if it has gone.
  bool greet();
  // Returns the exit code of a device, in that device. Leaves the process
  // otherwise.
  int run();

 private:
  // Both return an exit code in a device that was forked.
  std::optional<int> handle_message();
  std::optional<int> start_device(Message& request);

  void preload(const Message& request);
  void answer_start(uint32_t serial, pid_t pid, int error);
  void report_ends();
  int become_device(Message& request);

  Descriptor socket_;
  Descriptor parent_;
  Descriptor child_signals_;
  std::map<pid_t, uint32_t> devices_;  // serial numbers
};

bool Zygote::greet() {
  Message hello;
  if (!receive_message(socket_.get(), &hello) || hello.fds.empty()) {
    return false;
  }
  parent_ = std::move(hello.fds[0]);

  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ended, nullptr);
  child_signals_ = Descriptor(signalfd(-1, &child_ended, SFD_CLOEXEC));

  const Descriptor self = open_process(getpid());
  Message ready;
  ready.kind = MessageKind::kReady;
  ready.value = getpid();
  ready.detail = OPENREG_VERSION;
  return child_signals_ && self &&
         send_message(socket_.get(), ready, {self.get()});
}

int Zygote::run() {
  pollfd events[3] = {{parent_.get(), POLLIN, 0},
                      {child_signals_.get(), POLLIN, 0},
                      {socket_.get(), POLLIN, 0}};
  while (true) {
    if (poll(events, 3, -1) < 0) continue;
    if (events[0].revents != 0) _exit(kParentGone);
    if (events[1].revents != 0) report_ends();
    if (events[2].revents == 0) continue;
    if (const std::optional<int> code = handle_message()) return *code;
  }
}

std::optional<int> Zygote::handle_message() {
  Message message;
  if (!receive_message(socket_.get(), &message)) _exit(kParentGone);
  if (message.kind == MessageKind::kStart) return start_device(message);
  if (message.kind == MessageKind::kPreload) preload(message);
  return std::nullopt;
}

void Zygote::preload(const Message& request) {
  Message answer;
  answer.kind = MessageKind::kPreloaded;
  answer.serial = request.serial;
  // Never closed: it is for the devices to come.
  if (dlopen(request.text.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* const reason = dlerror();
    answer.text = reason != nullptr ? reason : "dlopen failed";
  }
  answer.text.resize(std::min(answer.text.size(), kMaxText));
  send_message(socket_.get(), answer, {});
}

std::optional<int> Zygote::start_device(Message& request) {
  if (request.fds.size() < kFirstUserFd) return std::nullopt;
  std::fflush(nullptr);  // or the device would write it again
  const pid_t pid = fork();
  if (pid == 0) return become_device(request);
  if (pid > 0) devices_.emplace(pid, request.serial);
  answer_start(request.serial, pid, errno);
  return std::nullopt;
}

// A device that has ended by now is not reaped before the next report, so its
// number is still its own.
void Zygote::answer_start(uint32_t serial, pid_t pid, int error) {
  Message answer;
  answer.kind = MessageKind::kStarted;
  answer.serial = serial;
  if (pid < 0) {
    answer.detail = error;
    send_message(socket_.get(), answer, {});
    return;
  }
  const Descriptor device = open_process(pid);
  if (!device) {
    answer.detail = errno;
    kill(pid, SIGKILL);
    send_message(socket_.get(), answer, {});
    return;
  }
  answer.value = pid;
  send_message(socket_.get(), answer, {device.get()});
}

void Zygote::report_ends() {
  signalfd_siginfo signal{};
  static_cast<void>(read(child_signals_.get(), &signal, sizeof(signal)));
  while (true) {
    siginfo_t end{};
    if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG) != 0 || end.si_pid == 0) {
      return;
    }
    const auto device = devices_.find(end.si_pid);
    if (device == devices_.end()) continue;  // a library's child
    Message report;
    report.kind = MessageKind::kEnded;
    report.serial = device->second;
    report.value = end.si_code;
    report.detail = end.si_status;
    devices_.erase(device);
    send_message(socket_.get(), report, {});
  }
}

int Zygote::become_device(Message& request) {
  socket_.reset();
  child_signals_.reset();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  StartUp start_up;
  start_up.device = request.value;
  start_up.block = std::move(request.text);
  for (size_t i = kFirstUserFd; i < request.fds.size(); ++i) {
    start_up.fds.push_back(request.fds[i].release());
  }
  const std::string name = "openreg-dev-" + std::to_string(start_up.device);
  prctl(PR_SET_NAME, name.c_str());

  BeatPage beats = BeatPage::map(request.fds[kBeatPage]);
  request.fds[kBeatPage].reset();
  if (!beats ||
      !start_life_watch(std::move(parent_), std::move(request.fds[kLifePipe]),
                        std::move(beats))) {
    std::perror("openreg-device: cannot watch the parent");
    return 1;
  }
  return serve_device(start_up);
}

}  // namespace

int run_zygote(Descriptor socket) {
  prctl(PR_SET_NAME, "openreg-zygote");
  Zygote zygote(std::move(socket));
  if (!zygote.greet()) return 1;
  return zygote.run();
}

}  // namespace openreg
