#include "isolated/process/message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace openreg {

namespace {

struct Header {
  MessageKind kind;
  uint32_t serial;
  int32_t value;
  int32_t detail;
};

constexpr size_t kMaxFds = kFirstUserFd + kMaxUserFds;

// Room for the descriptors of one message.
struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kMaxFds * sizeof(int))];
};

void put_descriptors(const std::vector<int>& fds, ControlBuffer& buffer,
                     msghdr& packet) {
  const size_t size = fds.size() * sizeof(int);
  packet.msg_control = buffer.bytes;
  packet.msg_controllen = CMSG_SPACE(size);
  cmsghdr* const control = CMSG_FIRSTHDR(&packet);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(control), fds.data(), size);
}

std::vector<Descriptor> take_descriptors(msghdr& packet) {
  std::vector<Descriptor> result;
  for (cmsghdr* control = CMSG_FIRSTHDR(&packet); control != nullptr;
       control = CMSG_NXTHDR(&packet, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      result.push_back(take_over(fd));
    }
  }
  return result;
}

}  // namespace

bool send_message(int socket, const Message& message,
                  const std::vector<int>& fds) {
  if (fds.size() > kMaxFds || message.text.size() > kMaxText) {
    errno = EMSGSIZE;
    return false;
  }
  Header header{message.kind, message.serial, message.value, message.detail};
  iovec parts[2] = {
      {&header, sizeof(header)},
      {const_cast<char*>(message.text.data()), message.text.size()}};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = 2;
  ControlBuffer control{};
  if (!fds.empty()) put_descriptors(fds, control, packet);
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &packet, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

bool receive_message(int socket, Message* message) {
  Header header{};
  std::string text(kMaxText, '\0');
  iovec parts[2] = {{&header, sizeof(header)}, {text.data(), text.size()}};
  ControlBuffer control{};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = 2;
  packet.msg_control = control.bytes;
  packet.msg_controllen = sizeof(control.bytes);
  ssize_t received = -1;
  do {
    received = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return false;
  std::vector<Descriptor> fds = take_descriptors(packet);
  if (static_cast<size_t>(received) < sizeof(header) ||
      (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return false;
  }
  text.resize(static_cast<size_t>(received) - sizeof(header));
  *message = {header.kind,   header.serial,   header.value,
              header.detail, std::move(text), std::move(fds)};
  return true;
}

}  // namespace openreg
