#include "isolated/process/life_watch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include "core/thread_safety.h"
#include "isolated/process/start_up.h"

namespace openreg {

namespace {

// What the thread has to do with the rest of the process.
struct EndHandler {
  Mutex mutex;
  std::function<void()> call GUARDED_BY(mutex);
  bool requested GUARDED_BY(mutex) = false;
};

EndHandler& end_handler() {
  static EndHandler* const only = new EndHandler;
  return *only;
}

void request_end() {
  std::function<void()> call;
  {
    EndHandler& handler = end_handler();
    const MutexLock lock(handler.mutex);
    handler.requested = true;
    call = handler.call;
  }
  if (!call) _exit(0);
  call();
}

struct LifeWatch {
  Descriptor parent;
  Descriptor life;
  BeatPage beats;

  void run() {
    beats->thread.store(static_cast<int32_t>(syscall(SYS_gettid)));
    beats->thread.notify_one();
    pollfd events[2] = {{parent.get(), POLLIN, 0}, {life.get(), POLLIN, 0}};
    while (true) {
      beats->count.fetch_add(1, std::memory_order_relaxed);
      if (poll(events, 2, static_cast<int>(kBeat.count())) <= 0) continue;
      if (events[0].revents != 0) _exit(0);
      if (events[1].revents != 0) read_life();
    }
  }

  void read_life() {
    char byte = 0;
    const ssize_t size = read(life.get(), &byte, 1);
    if (size < 0 && errno == EINTR) return;
    if (size != 1) _exit(0);  // the parent is another program now
    request_end();
  }
};

void* run_life_watch(void* watch) {
  std::unique_ptr<LifeWatch>(static_cast<LifeWatch*>(watch))->run();
  return nullptr;
}

}  // namespace

bool start_life_watch(Descriptor parent, Descriptor life, BeatPage beats) {
  auto watch = std::make_unique<LifeWatch>(std::move(parent), std::move(life),
                                           std::move(beats));
  // Signals are for the threads that know what to do with them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error =
      pthread_create(&thread, nullptr, run_life_watch, watch.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    errno = error;
    return false;
  }
  pthread_setname_np(thread, "openreg-life");
  pthread_detach(thread);
  // The thread's now, which never ends. It has to be known before this process
  // can be taken for a silent one.
  watch.release()->beats->thread.wait(0);
  return true;
}

void StartUp::on_end_request(const std::function<void()>& handler) {
  bool requested = false;
  {
    EndHandler& end = end_handler();
    const MutexLock lock(end.mutex);
    end.call = handler;
    requested = end.requested;
  }
  if (requested) handler();
}

}  // namespace openreg
