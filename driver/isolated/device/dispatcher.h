// The device's side of a command: checked, and handed to its queue.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/context.h"
#include "core/queue_list.h"
#include "execution/execution_places.h"
#include "isolated/device/host_view.h"
#include "isolated/device/modules.h"
#include "isolated/device/reply_slots.h"
#include "isolated/device/reports.h"
#include "isolated/protocol.h"

namespace openreg {

// The parts that the dispatcher uses; all of them outlive the dispatcher.
struct DeviceParts {
  Context& context;
  const HostView& host;
  wire::FenceSlot* fences;
  Timestamp* stamps;
  ReplySlots& reply_slots;
};

// Note [Distrust]
// A device process believes nothing that it reads from memory that others can
// write. A command is copied out of it before it is looked at; every number in
// it is checked against what the device knows by itself. A command that is
// wrong fails: on its queue, in its turn, if it names one and is the next
// there; otherwise it is reported and dropped. The process goes on in every
// case.

// For one thread. Never waits.
class Dispatcher {
 public:
  // `control_queue` is the queue for requests.
  Dispatcher(const DeviceParts& parts, uint32_t control_queue);
  // Drops what is queued.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Handles one command. `payload` may lie in shared memory; it is read once.
  void handle(const wire::Header& header, std::span<const std::byte> payload);

  // The number that the next command of a queue has to have; 0 if there is no
  // such queue.
  uint64_t next_number(uint32_t queue) const {
    const Queue* const found = find_queue(queue);
    return found != nullptr ? found->submitted() + 1 : 0;
  }

  // Tells the program of a failure that belongs to no queue.
  void report(const Status& status);

  // Ends the queues that were retired and are done.
  void tidy();

 private:
  // Finds a payload that lies in staging memory.
  Status find_staged(std::span<const std::byte>* payload) const;
  Status handle_device(const wire::Header& header);
  Status create_queue(uint32_t index, uint64_t priority);
  Status retire_queue(uint32_t index);
  Status handle_queued(const wire::Header& header,
                       std::span<const std::byte> payload);

  // Makes a command of what was read. A failure becomes the command's.
  Status read_command(const wire::Header& header,
                      std::span<const std::byte> payload,
                      Completion* completion, Command* command);
  Status read_launch(const wire::Header& header, Completion* completion,
                     Command* command);
  Status read_copy(const wire::Header& header,
                   std::span<const std::byte> payload, Completion* completion,
                   Command* command);
  Status read_fill(const wire::Header& header, Command* command);
  Status read_wait(const wire::Header& header, Command* command);
  Status read_host(const wire::Header& header, Command* command);
  Status read_stamp(const wire::Header& header, Command* command);
  Status read_request(const wire::Header& header,
                      std::span<const std::byte> payload, Command* command);
  Status find_memory(uint64_t address, uint64_t count, const char* what,
                     MemoryRef* memory) const;

  Queue* find_queue(uint32_t index) const;

  const DeviceParts parts_;
  const uint32_t control_queue_;
  ExecutionPlaces places_;
  Modules modules_;
  QueueList all_queues_;
  std::vector<std::shared_ptr<Queue>> queues_;        // by index
  std::map<uint32_t, std::weak_ptr<Queue>> retired_;  // may still have work
  std::vector<std::byte> scratch_;
};

}  // namespace openreg
