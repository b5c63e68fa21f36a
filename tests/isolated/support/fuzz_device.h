// A device's command reader without a process around it, for hostile commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "core/context.h"
#include "core/mapping.h"
#include "core/shared_memory.h"
#include "isolated/device/dispatcher.h"
#include "isolated/protocol.h"

namespace openreg::test {

// A command as it is sent: a header and what follows it.
struct SentCommand {
  wire::Header header{};
  std::vector<std::byte> payload;
};

// The commands of one run.
using Script = std::vector<SentCommand>;

// Where the scripts find memory; the same in every run.
struct FuzzAddresses {
  static constexpr uint64_t kMemory = uint64_t{1} << 40;
  static constexpr uint64_t kMemorySize = uint64_t{64} << 20;
  static constexpr uint64_t kMemoryLimit = uint64_t{16} << 20;
  static constexpr uint64_t kPinned = uint64_t{2} << 40;
  static constexpr uint64_t kStaging = uint64_t{3} << 40;
  static constexpr uint64_t kHostSize = uint64_t{1} << 20;
};

// Well-formed scripts that together use every kind of command.
std::vector<Script> sample_scripts();

// Fresh scripts made from known ones, by changing, dropping, doubling and
// mixing commands. The seed decides everything.
class ScriptMutator {
 public:
  ScriptMutator(uint64_t seed, std::vector<Script> corpus);

  Script next();
  // A script that is worth more changes.
  void keep(Script script) { corpus_.push_back(std::move(script)); }
  size_t corpus_size() const { return corpus_.size(); }

 private:
  void mutate(SentCommand& command);
  uint64_t interesting();

  std::mt19937_64 random_;
  std::vector<Script> corpus_;
};

// One device, as new. For one thread.
class FuzzDevice {
 public:
  FuzzDevice();

  // Sends a command. Numbers that say kNextNumber become the next of their
  // queue, so that not every change ends at the first check.
  void send(SentCommand command);

  // Whether the reader still answers a request.
  bool answers();
  // Failures that it has reported.
  uint64_t failures() const { return control_->failures.load(); }
  // Grows with every command that a queue has taken.
  uint64_t taken(uint32_t queue) const {
    return dispatcher_->next_number(queue);
  }

  static constexpr uint64_t kNextNumber = UINT64_MAX;
  static constexpr uint32_t kControlQueue = 7;
  static constexpr uint32_t kPingReply = 255;

 private:
  Config config_;
  SharedMemory life_;
  SharedMemory fences_;
  wire::Control* control_;
  HostView host_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Reports> reports_;
  std::unique_ptr<ReplySlots> reply_slots_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

}  // namespace openreg::test
