// The work that a device process does in the order of a queue, besides the
// commands of every driver.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/command.h"
#include "isolated/protocol.h"

namespace openreg {

// Fails: a command that was refused.
TaskCommand make_refusal(Status status);

// Waits until a queue of any device has come to `number`.
TaskCommand make_fence_wait(const Timeline& timeline, uint64_t number);

// Has the program run its next host function and waits for it.
TaskCommand make_host_call(wire::FenceSlot& slot);

// Does what `body` says.
TaskCommand make_request(std::function<Status()> body);

}  // namespace openreg
