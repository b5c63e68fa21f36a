// The watching thread. What others ask of the watcher is in
// watcher_requests.cpp.
#include "isolated/process/watcher.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <utility>

#include "isolated/process/thread_state.h"

namespace openreg {

namespace {

std::atomic<Watcher*> begun = nullptr;

// How long a dead process waits for the zygote to say how it died.
constexpr std::chrono::milliseconds kReportPatience{300};

// How much longer than the limit a process may be silent that is only slow.
constexpr int kSlowFactor = 10;

int milliseconds_until(SteadyTime then, SteadyTime now) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(then - now);
  return std::max(0, static_cast<int>(left.count()));
}

void send_signal(const Descriptor& process, int number) {
  syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0);
}

// Counts a look at the page. Returns why the process is to be killed, if so.
std::string look_at_beat(WatchedProcess& process) {
  const uint32_t beat = process.beats->count.load(std::memory_order_relaxed);
  if (beat != std::exchange(process.last_beat, beat)) {
    process.missed_beats = 0;
    return {};
  }
  const auto limit = process.options.heartbeat_limit;
  const auto silence = ++process.missed_beats * kBeat;
  if (silence < limit) return {};
  const char state = thread_state(process.pid, process.beats->thread.load());
  if (state == 't') process.missed_beats = 0;  // a debugger holds it
  const bool is_slow = state == 'R' || state == 'D';
  if (state == 't' || (is_slow && silence < kSlowFactor * limit)) return {};
  return format_string("has not answered for %d ms%s",
                       static_cast<int>(silence.count()),
                       state == 'T' ? ": it is stopped" : "");
}

}  // namespace

Watcher& Watcher::get() {
  static Watcher* const only = new Watcher;
  begun.store(only, std::memory_order_release);
  return *only;
}

Watcher* Watcher::get_if_begun() {
  return begun.load(std::memory_order_acquire);
}

Watcher::Watcher() : wake_up_(make_wake_up()) {
  close_descriptors_in_children();
  // The program's signals are not for this thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(&Watcher::run, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "openreg-watch");
  thread.detach();
}

void Watcher::run() {
  const MutexLock lock(mutex_);
  while (true) {
    wait_for_events();
    if (std::chrono::steady_clock::now() >= next_look_) look_at_beats();
    tell_deaths();
  }
}

void Watcher::wait_for_events() {
  // The processes are held, so that nobody closes what is polled. Nobody but
  // this thread takes a zygote away.
  std::vector<Process> watched;
  std::vector<pollfd> events;
  events.push_back({wake_up_.get(), POLLIN, 0});
  events.push_back({zygote_ ? zygote_->socket.get() : -1, POLLIN, 0});
  for (const auto& [serial, process] : processes_) {
    if (process->pid == 0 || process->ended) continue;
    watched.push_back(process);
    events.push_back({process->process.get(), POLLIN, 0});
  }
  const int timeout = poll_timeout(std::chrono::steady_clock::now());

  mutex_.unlock();
  poll(events.data(), events.size(), timeout);
  uint64_t wakes = 0;
  if (events[0].revents != 0) {
    static_cast<void>(!read(wake_up_.get(), &wakes, sizeof(wakes)));
  }
  mutex_.lock();

  if (events[1].revents != 0) read_zygote();
  for (size_t i = 0; i < watched.size(); ++i) {
    if (events[i + 2].revents != 0) note_end(*watched[i]);
  }
}

// In milliseconds, as poll() wants it; -1 if there is nothing to do without an
// event.
int Watcher::poll_timeout(SteadyTime now) const {
  int timeout = -1;
  const auto at_most = [&timeout](int limit) {
    timeout = timeout < 0 ? limit : std::min(timeout, limit);
  };
  for (const auto& [serial, process] : processes_) {
    if (process->is_gone || process->pid == 0) continue;
    if (process->ended) {
      at_most(milliseconds_until(*process->ended + kReportPatience, now));
    } else if (process->options.heartbeat_limit.count() > 0) {
      at_most(milliseconds_until(next_look_, now));
    }
  }
  return timeout;
}

void Watcher::read_zygote() {
  if (!zygote_) return;
  Message message;
  if (!receive_message(zygote_->socket.get(), &message)) {
    std::string ignored;
    reap(zygote_->process, &ignored);
    zygote_.reset();
    changed_.notify_all();
    return;
  }
  const auto found = processes_.find(message.serial);
  if (message.kind == MessageKind::kEnded) {
    if (found == processes_.end()) return;
    WatchedProcess& process = *found->second;
    if (process.reason.empty()) {
      process.reason = describe_end(message.value, message.detail);
    }
    note_end(process);
    return;
  }
  if (message.serial != awaited_) return;
  if (message.kind == MessageKind::kStarted && message.fds.size() == 1 &&
      found != processes_.end()) {
    found->second->pid = message.value;
    found->second->process = std::move(message.fds[0]);
  }
  answer_ = std::move(message);
  changed_.notify_all();
}

void Watcher::note_end(WatchedProcess& process) {
  if (!process.ended) process.ended = std::chrono::steady_clock::now();
  std::string reason;
  if (reap(process.process, &reason) && process.reason.empty()) {
    process.reason = std::move(reason);
  }
}

void Watcher::look_at_beats() {
  next_look_ = std::chrono::steady_clock::now() + kBeat;
  for (const auto& [serial, process] : processes_) {
    if (process->pid == 0 || process->ended ||
        process->options.heartbeat_limit.count() == 0) {
      continue;
    }
    const std::string reason = look_at_beat(*process);
    if (reason.empty()) continue;
    if (process->reason.empty()) process->reason = reason;
    send_signal(process->process, SIGKILL);
    // Not what it says itself: it may be unable even to die.
    process->ended = std::chrono::steady_clock::now();
  }
}

bool Watcher::is_finished(const WatchedProcess& process, SteadyTime now) const {
  return process.ended && (!process.reason.empty() || process.end_is_wanted ||
                           !zygote_ || now >= *process.ended + kReportPatience);
}

void Watcher::tell_deaths() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<Process> dead;
  for (const auto& [serial, process] : processes_) {
    if (process->is_gone || !is_finished(*process, now)) continue;
    process->is_gone = true;
    if (process->reason.empty()) {
      process->reason = "has ended for an unknown reason";
    }
    process->is_being_told =
        !process->end_is_wanted && process->options.on_death;
    if (process->is_being_told) dead.push_back(process);
    changed_.notify_all();
  }
  for (const Process& process : dead) {
    mutex_.unlock();
    process->options.on_death(process->pid, process->reason);
    mutex_.lock();
    process->is_being_told = false;
    changed_.notify_all();
  }
}

}  // namespace openreg
