// How the parent starts its zygote (Note [Processes]), and in which words a
// process has ended.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/descriptor.h"
#include "core/status.h"

namespace openreg {

// The flag and the descriptor that main() of `openreg-device` expects.
inline constexpr char kZygoteFlag[] = "--zygote";
inline constexpr int kZygoteSocket = 3;

struct Zygote {
  pid_t pid = 0;
  Descriptor process;  // its pidfd
  Descriptor socket;
};

// Starts a zygote and waits until it is ready.
//   orErrorNotInitialized  it can't be; the message says why
Status spawn_zygote(Zygote* zygote);

// The program of the zygote: OPENREG_DEVICE_PROGRAM, or `openreg-device` beside
// the library or program that this code is in.
std::string device_program();

// How a process ended, such as "exited with code 3", from si_code and si_status
// of waitid().
std::string describe_end(int code, int status);

// Reaps a process if it is a child of this one, as it may be in a program that
// takes in orphans, and has ended. Returns false if there is nothing to reap.
bool reap(const Descriptor& process, std::string* reason);

}  // namespace openreg
