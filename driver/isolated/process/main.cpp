// The program `openreg-device`: what libopenreg starts device processes from.
// It puts its descriptors in order, leaves the family of the program that
// started it, and becomes the zygote.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/descriptor.h"
#include "isolated/process/spawn.h"
#include "isolated/process/zygote.h"

namespace openreg {

namespace {

bool is_our_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
         type == SOCK_SEQPACKET;
}

// For kernels before 5.9, which have no close_range.
void close_one_by_one(int first) {
  std::vector<int> fds;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    fds.push_back(static_cast<int>(
        std::strtol(entry.path().filename().c_str(), nullptr, 10)));
  }
  for (const int fd : fds) {
    if (fd >= first) close(fd);
  }
}

// Keeps the socket and the standard streams, which all exist afterwards. The
// program's other descriptors that were not close-on-exec are not ours.
void put_descriptors_in_order() {
  const unsigned first = kZygoteSocket + 1;
  if (syscall(SYS_close_range, first, UINT_MAX, 0) != 0) {
    close_one_by_one(static_cast<int>(first));
  }
  fcntl(kZygoteSocket, F_SETFD, FD_CLOEXEC);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is this one.
    if (open("/dev/null", O_RDWR) != fd) std::abort();
  }
}

int run(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], kZygoteFlag) != 0 ||
      !is_our_socket(kZygoteSocket)) {
    std::fputs("openreg-device is started by libopenreg, not by people.\n",
               stderr);
    return 2;
  }
  put_descriptors_in_order();
  const pid_t pid = fork();
  if (pid < 0) {
    std::perror("openreg-device: fork");
    return 1;
  }
  if (pid > 0) _exit(0);  // Note [Processes]
  return run_zygote(Descriptor(kZygoteSocket));
}

}  // namespace

}  // namespace openreg

int main(int argc, char** argv) { return openreg::run(argc, argv); }
