// Well-formed commands, and what can be done to them.
#include <cstring>
#include <string>

#include "support/fuzz_device.h"

namespace openreg::test {

namespace {

using At = FuzzAddresses;
using wire::Kind;
constexpr uint32_t kQueue = 3;

SentCommand make(Kind kind, uint32_t queue,
                 std::array<uint64_t, wire::kArguments> arguments = {},
                 const std::string& payload = {}) {
  SentCommand command;
  command.header.kind = kind;
  command.header.queue = queue;
  command.header.reply = wire::kNoReply;
  command.header.number = FuzzDevice::kNextNumber;
  command.header.arguments = arguments;
  const auto bytes = std::as_bytes(std::span(payload));
  command.payload.assign(bytes.begin(), bytes.end());
  return command;
}

SentCommand cheap(SentCommand command) {
  command.header.flags |= wire::kCheap;
  return command;
}

SentCommand answered(SentCommand command, uint32_t reply) {
  command.header.reply = reply;
  return command;
}

SentCommand find(uint32_t number, const char* name) {
  return answered(make(Kind::kFindKernel, FuzzDevice::kControlQueue,
                       {0, number}, std::string(name) + '\0'),
                  number);
}

// The arguments of "copy" and "fill": three words.
std::string words(uint64_t first, uint64_t second, uint64_t third) {
  const std::array<uint64_t, 3> all = {first, second, third};
  return {reinterpret_cast<const char*>(all.data()), sizeof all};
}

SentCommand staged(SentCommand command, uint64_t address, uint64_t size) {
  const wire::StagedPayload payload{address, size};
  const auto bytes = std::as_bytes(std::span(&payload, 1));
  command.header.flags |= wire::kStaged;
  command.payload.assign(bytes.begin(), bytes.end());
  return command;
}

}  // namespace

std::vector<Script> sample_scripts() {
  const uint64_t memory = At::kMemory;
  const Script open = {make(Kind::kAddMemory, 0, {memory, 4096}),
                       make(Kind::kAddMemory, 0, {memory + 8192, 100}),
                       make(Kind::kCreateQueue, kQueue, {0})};
  const auto with = [&open](Script more) {
    Script script = open;
    script.insert(script.end(), more.begin(), more.end());
    return script;
  };
  return {
      with({make(Kind::kRemoveMemory, 0, {memory}),
            make(Kind::kRetireQueue, kQueue)}),
      with({cheap(make(Kind::kCopy, kQueue, {memory, 0, 5}, "bytes")),
            make(Kind::kCopy, kQueue, {memory + 8, memory, 64}),
            make(Kind::kCopy, kQueue, {At::kPinned, memory, 64}),
            make(Kind::kCopy, kQueue, {memory, At::kStaging, 64}),
            answered(make(Kind::kCopy, kQueue, {0, memory, 64}), 5)}),
      with({make(Kind::kFill, kQueue, {memory, 4096, 7}),
            cheap(make(Kind::kFill, kQueue, {At::kPinned, 32, 1}))}),
      with({find(0, "fill"), find(1, "copy"), find(2, "fail"),
            cheap(make(Kind::kLaunch, kQueue, {0, 0, wire::kNoRoom},
                       words(memory, 64, 1))),
            answered(make(Kind::kLaunch, kQueue, {0, 1, 100},
                          words(memory, memory + 64, 64)),
                     9),
            answered(make(Kind::kLaunch, kQueue, {0, 1, 70'000, At::kStaging},
                          words(memory, memory + 64, 64)),
                     10),
            make(Kind::kLaunch, kQueue, {0, 2, wire::kNoRoom}, "wrong size")}),
      with({make(Kind::kStamp, kQueue, {17}),
            cheap(make(Kind::kStamp, kQueue, {18})),
            make(Kind::kWait, kQueue, {FuzzDevice::kControlQueue, 0})}),
      with({staged(make(Kind::kCopy, kQueue, {memory, 0, 4096}),
                   At::kStaging + 64, 4096)}),
      {answered(make(Kind::kLoadModule, FuzzDevice::kControlQueue, {4},
                     std::string("/nowhere.so\0nowhere.so\0", 23)),
                3),
       answered(make(Kind::kUnloadModule, FuzzDevice::kControlQueue, {4}), 3),
       cheap(answered(make(Kind::kPing, FuzzDevice::kControlQueue), 4))},
      with({make(Kind::kHost, kQueue)}),
  };
}

ScriptMutator::ScriptMutator(uint64_t seed, std::vector<Script> corpus)
    : random_(seed), corpus_(std::move(corpus)) {}

uint64_t ScriptMutator::interesting() {
  static constexpr uint64_t kValues[] = {
      0,
      1,
      2,
      63,
      64,
      511,
      512,
      4096,
      65'535,
      65'536,
      UINT32_MAX,
      uint64_t{1} << 32,
      uint64_t{1} << 63,
      UINT64_MAX,
      UINT64_MAX - 1,
      UINT64_MAX - 4095,
      At::kMemory,
      At::kMemory + 4096,
      At::kMemory + 8192,
      At::kMemory + At::kMemorySize,
      At::kPinned,
      At::kPinned + At::kHostSize,
      At::kStaging,
      At::kStaging + At::kHostSize - 1,
      FuzzDevice::kControlQueue,
      wire::kFenceSlots,
      wire::kReplies,
      wire::kStamps,
      wire::kMaxPayload,
      wire::kMaxPayload + 1,
  };
  return kValues[random_() % std::size(kValues)];
}

void ScriptMutator::mutate(SentCommand& command) {
  wire::Header& header = command.header;
  const auto value =
      random_() % 2 == 0 ? interesting() : random_() >> random_() % 64;
  switch (random_() % 10) {
    case 0:
      header.kind =
          static_cast<Kind>(random_() % 4 == 0 ? random_() : random_() % 18);
      break;
    case 1:
      header.flags ^= static_cast<uint16_t>(1u << random_() % 16);
      break;
    case 2:
      header.queue = static_cast<uint32_t>(value);
      break;
    case 3:
      header.reply = static_cast<uint32_t>(random_() % 300);
      break;
    case 4:
      header.number = value;
      break;
    case 5:
      command.payload.resize(random_() % 4 == 0 ? random_() % 70'000
                                                : random_() % 40);
      break;
    case 6:
      if (!command.payload.empty()) {
        command.payload[random_() % command.payload.size()] ^=
            static_cast<std::byte>(1u << random_() % 8);
      }
      break;
    case 7:
      if (command.payload.size() >= sizeof value) {
        const size_t slots = command.payload.size() / sizeof value;
        std::memcpy(command.payload.data() + random_() % slots * sizeof value,
                    &value, sizeof value);
      }
      break;
    default:
      header.arguments[random_() % wire::kArguments] = value;
  }
}

Script ScriptMutator::next() {
  Script script = corpus_[random_() % corpus_.size()];
  const size_t changes = 1 + random_() % 4;
  for (size_t i = 0; i < changes; ++i) {
    const size_t at = random_() % script.size();
    switch (random_() % 8) {
      case 0:
        if (script.size() > 1) {
          script.erase(script.begin() + static_cast<ptrdiff_t>(at));
        }
        break;
      case 1:
        script.insert(script.begin() + static_cast<ptrdiff_t>(at), script[at]);
        break;
      case 2: {
        const Script& other = corpus_[random_() % corpus_.size()];
        script.insert(script.end(), other.begin(), other.end());
        break;
      }
      default:
        mutate(script[at]);
    }
    if (script.size() > 24) script.resize(24);
  }
  return script;
}

}  // namespace openreg::test
