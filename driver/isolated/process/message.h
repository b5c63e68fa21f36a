// The messages between the parent and its zygote: one per packet, with
// descriptors. Both are built from the same sources, which is checked first, so
// the numbers have the machine's form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/descriptor.h"

namespace openreg {

enum class MessageKind : uint32_t {
  kHello,      // parent: fds = its pidfd
  kReady,      // zygote: value = pid, detail = version, fds = its pidfd
  kPreload,    // parent: text = path
  kPreloaded,  // zygote: text = why not, or empty
  kStart,      // parent: value = device, text = block; fds = kFirstUserFd…
  kStarted,    // zygote: value = pid or 0, detail = errno, fds = pidfd
  kEnded,      // zygote: value = si_code, detail = si_status
};

// The descriptors of kStart, before the user's.
inline constexpr size_t kLifePipe = 0;  // Note [Signs of life]
inline constexpr size_t kBeatPage = 1;
inline constexpr size_t kFirstUserFd = 2;

inline constexpr size_t kMaxUserFds = 64;
inline constexpr size_t kMaxText = size_t{64} << 10;

struct Message {
  MessageKind kind = MessageKind::kHello;
  uint32_t serial = 0;  // of the request; of the device in kStart… and kEnded
  int32_t value = 0;
  int32_t detail = 0;
  std::string text;
  std::vector<Descriptor> fds;
};

// Sends one message; `fds` are sent instead of message.fds and stay the
// caller's. Blocks while the other side doesn't read. False, with errno, if
// there is no other side or the message is too large.
bool send_message(int socket, const Message& message,
                  const std::vector<int>& fds);

// Receives one message. Blocks until there is one. False if the other side has
// gone or sent something that is no message.
bool receive_message(int socket, Message* message);

}  // namespace openreg
