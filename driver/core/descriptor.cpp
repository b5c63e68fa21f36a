#include "core/descriptor.h"
#include "core/thread_safety.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <utility>

namespace openreg {

namespace {

constexpr unsigned kMemoryFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
constexpr int kSealedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::atomic<bool> forked_child = false;

// The descriptors of this process. The mutex is held while one is made or
// closed, and by fork(), so that the set is right in the child.
struct Registry {
  Mutex mutex;
  std::set<int> fds GUARDED_BY(mutex);
};

Registry& registry() {
  static Registry* const only = new Registry;
  return *only;
}

void before_fork() ACQUIRE(registry().mutex) { registry().mutex.lock(); }

void in_parent() RELEASE(registry().mutex) { registry().mutex.unlock(); }

void in_child() RELEASE(registry().mutex) {
  for (const int fd : registry().fds) close(fd);
  forked_child.store(true, std::memory_order_relaxed);
  registry().mutex.unlock();
}

// Returns `fd`, or a duplicate above the standard streams in its place.
int lift(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int lifted = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return lifted;
}

int lift_and_register(int fd) REQUIRES(registry().mutex) {
  const int lifted = lift(fd);
  if (lifted >= 0) registry().fds.insert(lifted);
  return lifted;
}

// Calls `make`, which returns a descriptor or -1.
template <typename Make>
Descriptor make_one(Make make) {
  int fd = -1;
  {
    const MutexLock lock(registry().mutex);
    fd = lift_and_register(make());
  }
  return Descriptor(fd);
}

// Calls `make`, which fills in two descriptors or returns -1.
template <typename Make>
DescriptorPair make_two(Make make) {
  int fds[2] = {-1, -1};
  {
    const MutexLock lock(registry().mutex);
    if (make(fds) != 0) return {};
    fds[0] = lift_and_register(fds[0]);
    fds[1] = lift_and_register(fds[1]);
  }
  DescriptorPair pair{Descriptor(fds[0]), Descriptor(fds[1])};
  if (pair.first && pair.second) return pair;
  return {};
}

}  // namespace

Descriptor::Descriptor(int fd) : fd_(fd) {
  if (fd_ < 0 || is_forked_child()) return;
  const MutexLock lock(registry().mutex);
  registry().fds.insert(fd_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  reset();
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

Descriptor::~Descriptor() { reset(); }

void Descriptor::reset() {
  const int fd = std::exchange(fd_, -1);
  // In a forked child it is closed, and the number may be another's by now.
  if (fd < 0 || is_forked_child()) return;
  const MutexLock lock(registry().mutex);
  registry().fds.erase(fd);
  close(fd);
}

int Descriptor::release() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0 || is_forked_child()) return fd;
  const MutexLock lock(registry().mutex);
  registry().fds.erase(fd);
  return fd;
}

Descriptor take_over(int fd) {
  return make_one([fd] { return fd; });
}

DescriptorPair make_socket_pair() {
  return make_two([](int* fds) {
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds);
  });
}

DescriptorPair make_pipe() {
  return make_two([](int* fds) { return pipe2(fds, O_CLOEXEC); });
}

Descriptor make_wake_up() {
  return make_one([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
}

Descriptor make_shared_memory(const char* name, size_t size) {
  Descriptor memory =
      make_one([name] { return memfd_create(name, kMemoryFlags); });
  if (!memory || ftruncate(memory.get(), static_cast<off_t>(size)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, kSealedSize) != 0) {
    return {};
  }
  return memory;
}

Descriptor open_process(int pid) {
  return make_one(
      [pid] { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); });
}

void close_descriptors_in_children() {
  static const int once = pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(once);
}

bool is_forked_child() { return forked_child.load(std::memory_order_relaxed); }

}  // namespace openreg
