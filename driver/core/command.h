// The commands that a stream can run. They hold device addresses and flat
// bytes, never host objects that the device would have to look into.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "core/status.h"
#include "openreg/kernel.h"
#include "openreg/stream.h"

namespace openreg {

class Context;
class Queue;
struct Completion;

// Code that a device process has loaded, by the numbers that it was given.
struct RemoteCode {
  uint32_t module;
  uint32_t kernel;
};

// A kernel of a loaded module. Immutable.
class Kernel {
 public:
  // In this process or in that of the device.
  using Code = std::variant<orKernelFn, RemoteCode>;

  // `module` keeps the code loaded; null for what always is.
  Kernel(std::string name, Code code, std::shared_ptr<const void> module)
      : name_(std::move(name)), code_(code), module_(std::move(module)) {}

  const std::string& name() const { return name_; }
  const Code& code() const { return code_; }

 private:
  const std::string name_;
  const Code code_;
  const std::shared_ptr<const void> module_;
};

// A point in a stream: all that was submitted to it up to `sequence`.
struct Fence {
  std::shared_ptr<Queue> queue;
  uint64_t sequence = 0;
};

// A moment that the device fills in. Thread-safe.
struct Timestamp {
  std::atomic<int64_t> nanoseconds{0};
};

// An address and whose memory it is: a device's, or the host's if null.
struct MemoryRef {
  void* pointer = nullptr;
  Context* owner = nullptr;
};

// Runs a kernel; its arguments are the payload.
struct LaunchCommand {
  std::shared_ptr<const Kernel> kernel;
};

// Copies bytes; a source without a pointer means the payload.
struct CopyCommand {
  MemoryRef dst;
  MemoryRef src;
  size_t count;
};

struct FillCommand {
  MemoryRef dst;
  size_t count;
  unsigned char value;
};

struct HostCommand {
  orHostFn_t function;
  void* data;
};

// Holds the stream until a point of another one.
struct WaitCommand {
  Fence fence;
};

// Writes the time at which the stream has got here.
struct StampCommand {
  std::shared_ptr<Timestamp> stamp;
};

// Something of the driver's own, for the side that runs commands.
class Task {
 public:
  virtual ~Task() = default;

  // `is_dropped` says whether the work has been cancelled meanwhile; a task
  // that waits asks now and then. `completion` may be null.
  virtual Status run(const std::function<bool()>& is_dropped,
                     Completion* completion) = 0;

  // Whether it is done also after a sticky failure.
  virtual bool runs_on_broken_device() const { return false; }
};

struct TaskCommand {
  std::unique_ptr<Task> task;
};

using Command =
    std::variant<LaunchCommand, CopyCommand, FillCommand, HostCommand,
                 WaitCommand, StampCommand, TaskCommand>;

using Payload = std::span<const std::byte>;

// A result that has to be collected.
class PendingReply {
 public:
  virtual ~PendingReply() = default;
  // Moves the result to `completion`.
  virtual void settle(Completion& completion) = 0;
};

// Where a command that somebody waits for leaves its result. Written by the
// device before the command counts as done, read afterwards.
struct Completion {
  Status status;
  bool wants_reply = false;    // otherwise a kernel's reply is dropped
  std::span<std::byte> reply;  // room for it
  size_t reply_size = 0;

  // Called when `status` is set, before the command counts as done, if not
  // null: hands the result on to another process.
  void (*publish)(Completion& completion) = nullptr;
  // Where the result is once the command is done, if not here: in what is
  // shared with another process. To be settled before it is read.
  std::shared_ptr<PendingReply> pending;
};

}  // namespace openreg
