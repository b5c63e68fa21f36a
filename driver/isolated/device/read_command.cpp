// Reads the numbers in a command and checks that the device knows them. See
// Note [Distrust].
#include <string>
#include <utility>
#include <vector>

#include "isolated/device/dispatcher.h"
#include "isolated/device/tasks.h"

namespace openreg {

namespace {

// The strings in a payload; each must end inside.
bool read_strings(std::span<const std::byte> payload,
                  std::vector<std::string>* strings) {
  const auto* text = reinterpret_cast<const char*>(payload.data());
  const std::string all(text, payload.size());
  if (all.empty() || all.back() != '\0') return false;
  for (size_t at = 0; at < all.size(); at += strings->back().size() + 1) {
    strings->emplace_back(all.c_str() + at);
  }
  return true;
}

bool is_small(uint64_t number) { return number <= UINT32_MAX; }

}  // namespace

Status Dispatcher::read_command(const wire::Header& header,
                                std::span<const std::byte> payload,
                                Completion* completion, Command* command) {
  if ((header.flags & ~wire::kKnownFlags) != 0) {
    return failure(orErrorInvalidValue, "flags 0x%x are unknown", header.flags);
  }
  if (header.queue == control_queue_) {
    return read_request(header, payload, command);
  }
  switch (header.kind) {
    case wire::Kind::kLaunch:
      return read_launch(header, completion, command);
    case wire::Kind::kCopy:
      return read_copy(header, payload, completion, command);
    case wire::Kind::kFill:
      return read_fill(header, command);
    case wire::Kind::kHost:
      return read_host(header, command);
    case wire::Kind::kWait:
      return read_wait(header, command);
    case wire::Kind::kStamp:
      return read_stamp(header, command);
    default:
      return read_request(header, payload, command);
  }
}

Status Dispatcher::find_memory(uint64_t address, uint64_t count,
                               const char* what, MemoryRef* memory) const {
  void* const pointer = reinterpret_cast<void*>(address);
  if (void* const found = parts_.host.find(pointer, count)) {
    *memory = {found, nullptr};
    return {};
  }
  const auto block = parts_.context.memory().heap().find(address);
  if (block && block->contains(address, count)) {
    *memory = {pointer, &parts_.context};
    return {};
  }
  return failure(orErrorIllegalAddress,
                 "%s=%p, %llu bytes, is not memory that device %d can use",
                 what, pointer, static_cast<unsigned long long>(count),
                 parts_.context.device());
}

Status Dispatcher::read_launch(const wire::Header& header,
                               Completion* completion, Command* command) {
  auto kernel = modules_.kernel(header.arguments[0], header.arguments[1]);
  if (kernel == nullptr) {
    return failure(orErrorInvalidHandle, "there is no such kernel");
  }
  if (completion != nullptr) {
    const uint64_t capacity = header.arguments[2];
    completion->wants_reply = capacity != wire::kNoRoom;
    if (!completion->wants_reply || header.arguments[3] == 0) {
      if (capacity < completion->reply.size()) {
        completion->reply = completion->reply.first(capacity);
      }
    } else {
      MemoryRef room;
      OPENREG_RETURN_IF_ERROR(
          find_memory(header.arguments[3], capacity, "reply", &room));
      if (room.owner != nullptr) {
        return failure(orErrorInvalidValue, "a reply goes to host memory");
      }
      completion->reply = {static_cast<std::byte*>(room.pointer), capacity};
    }
  }
  *command = LaunchCommand{std::move(kernel)};
  return {};
}

Status Dispatcher::read_copy(const wire::Header& header,
                             std::span<const std::byte> payload,
                             Completion* completion, Command* command) {
  const uint64_t count = header.arguments[2];
  CopyCommand copy{};
  copy.count = count;
  if (header.arguments[0] != 0) {
    OPENREG_RETURN_IF_ERROR(
        find_memory(header.arguments[0], count, "dst", &copy.dst));
  } else if (completion == nullptr || count > completion->reply.size()) {
    return failure(orErrorInvalidValue, "there is no room for what is copied");
  } else {
    copy.dst = {completion->reply.data(), nullptr};
    completion->reply_size = count;
  }
  if (header.arguments[1] != 0) {
    OPENREG_RETURN_IF_ERROR(
        find_memory(header.arguments[1], count, "src", &copy.src));
  } else if (payload.size() != count) {
    return failure(orErrorInvalidValue, "a copy of %llu bytes brings %zu bytes",
                   static_cast<unsigned long long>(count), payload.size());
  }
  *command = copy;
  return {};
}

Status Dispatcher::read_fill(const wire::Header& header, Command* command) {
  FillCommand fill{};
  fill.count = header.arguments[1];
  fill.value = static_cast<unsigned char>(header.arguments[2]);
  OPENREG_RETURN_IF_ERROR(
      find_memory(header.arguments[0], fill.count, "dst", &fill.dst));
  *command = fill;
  return {};
}

Status Dispatcher::read_wait(const wire::Header& header, Command* command) {
  if (header.arguments[0] >= wire::kFenceSlots) {
    return failure(orErrorInvalidValue, "there is no queue to wait for");
  }
  if (header.arguments[0] == header.queue &&
      header.arguments[1] >= header.number) {
    return failure(orErrorInvalidValue, "a queue can't wait for itself");
  }
  *command = make_fence_wait(parts_.fences[header.arguments[0]].done,
                             header.arguments[1]);
  return {};
}

Status Dispatcher::read_host(const wire::Header& header, Command* command) {
  *command = make_host_call(parts_.fences[header.queue]);
  return {};
}

Status Dispatcher::read_stamp(const wire::Header& header, Command* command) {
  if (header.arguments[0] >= wire::kStamps) {
    return failure(orErrorInvalidValue, "there is no such stamp");
  }
  // The stamps live as long as the process.
  *command = StampCommand{std::shared_ptr<Timestamp>(
      std::shared_ptr<void>(), &parts_.stamps[header.arguments[0]])};
  return {};
}

Status Dispatcher::read_request(const wire::Header& header,
                                std::span<const std::byte> payload,
                                Command* command) {
  if (header.kind > wire::Kind::kLast ||
      header.kind < wire::Kind::kLoadModule) {
    return failure(orErrorInvalidValue,
                   "commands of kind %u are not for this queue",
                   static_cast<unsigned>(header.kind));
  }
  if (header.queue != control_queue_) {
    return failure(orErrorInvalidValue, "a request is on the wrong queue");
  }
  if (header.kind == wire::Kind::kPing) {
    *command = make_request([] { return Status(); });
    return {};
  }
  if (!is_small(header.arguments[0]) || !is_small(header.arguments[1])) {
    return failure(orErrorInvalidValue, "a number is out of range");
  }
  const auto module = static_cast<uint32_t>(header.arguments[0]);
  const auto number = static_cast<uint32_t>(header.arguments[1]);
  std::vector<std::string> strings;
  if (header.kind == wire::Kind::kUnloadModule) {
    *command = make_request([this, module] { return modules_.unload(module); });
    return {};
  }
  const size_t least = header.kind == wire::Kind::kLoadModule ? 2 : 1;
  if (!read_strings(payload, &strings) || strings.size() < least) {
    return failure(orErrorInvalidValue, "a name is missing or has no end");
  }
  if (header.kind == wire::Kind::kFindKernel) {
    *command = make_request([this, module, number, name = strings[0]] {
      return modules_.find(module, number, name);
    });
    return {};
  }
  *command = make_request([this, module, strings = std::move(strings)] {
    return modules_.load(module, strings[0], strings[1],
                         {strings.begin() + 2, strings.end()});
  });
  return {};
}

}  // namespace openreg
