// The device: what runs in the process of its own.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "isolated/device/dispatcher.h"
#include "isolated/process/start_up.h"
#include "isolated/ring.h"

namespace openreg {

namespace {

constexpr int kWrongVersion = 3;
constexpr int kNoMemory = 4;

// How often a dispatcher without work looks whether it should end.
constexpr std::chrono::milliseconds kEndPoll{100};

// One life of a device, from the inside.
class Server {
 public:
  explicit Server(const wire::Start& start)
      : start_(start),
        config_(make_config(start)),
        context_(config_, start.device, start.epoch, host_) {}

  // Maps what the program shares. Returns false if the system refuses.
  bool open(const StartUp& start_up);
  void serve();
  void end() {
    ending_.store(true, std::memory_order_release);
    reader_->wake();
  }

 private:
  static Config make_config(const wire::Start& start) {
    Config config;
    config.driver = Driver::kIsolated;
    config.errors = start.errors == static_cast<uint32_t>(ErrorMode::kGpu)
                        ? ErrorMode::kGpu
                        : ErrorMode::kEarly;
    config.memory_per_device = start.memory_limit;
    return config;
  }

  const wire::Start start_;
  const Config config_;
  SharedMemory life_;
  SharedMemory fences_;
  HostView host_;
  Context context_;
  std::unique_ptr<Reports> reports_;
  std::unique_ptr<ReplySlots> reply_slots_;
  std::unique_ptr<RingReader> reader_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::atomic<bool> ending_{false};
};

bool Server::open(const StartUp& start_up) {
  const auto& fds = start_up.fds;
  life_ = SharedMemory::attach(fds[wire::kLifeFd], wire::kLifeBytes);
  fences_ = SharedMemory::attach(fds[wire::kFencesFd], wire::kFencesBytes);
  host_.pinned = {start_.pinned_base, SharedMemory::attach(fds[wire::kPinnedFd],
                                                           start_.pinned_size)};
  host_.staging = {
      start_.staging_base,
      SharedMemory::attach(fds[wire::kStagingFd], start_.staging_size)};
  host_.own = &context_;
  if (!life_ || !fences_ || !host_.pinned.memory || !host_.staging.memory) {
    return false;
  }
  auto& control = *reinterpret_cast<wire::Control*>(life_.data());
  current_counters = &control.counters;
  current_activity = &control.activity;
  if (!context_.memory()
           .open_view(start_.memory_base, start_.memory_size,
                      start_.memory_limit)
           .ok()) {
    return false;
  }
  RingMapping ring = RingMapping::map(life_.fd());
  if (!ring) return false;
  reports_ = std::make_unique<Reports>(control);
  context_.failures().set_sink([this](const Status& status) {
    reports_->publish(status, context_.failures().is_sticky(status.code()));
  });
  reply_slots_ = std::make_unique<ReplySlots>(
      reinterpret_cast<wire::Reply*>(life_.data() + wire::kRepliesOffset));
  reader_ = std::make_unique<RingReader>(std::move(ring), control);
  const DeviceParts parts{
      context_, host_, reinterpret_cast<wire::FenceSlot*>(fences_.data()),
      reinterpret_cast<Timestamp*>(life_.data() + wire::kStampsOffset),
      *reply_slots_};
  dispatcher_ = std::make_unique<Dispatcher>(parts, start_.control_queue);
  control.version.store(wire::kProtocolVersion, std::memory_order_release);
  return true;
}

void Server::serve() {
  wire::Header header{};
  std::span<const std::byte> payload;
  while (!ending_.load(std::memory_order_acquire)) {
    if (!reader_->has_next()) dispatcher_->tidy();
    if (!reader_->wait(kEndPoll)) continue;
    if (reader_->read(&header, &payload)) {
      dispatcher_->handle(header, payload);
      reader_->drop();
    } else {
      reader_->drop_all();
      dispatcher_->report(failure(orErrorInternal,
                                  "device %d has lost track of its commands",
                                  context_.device()));
    }
  }
}

}  // namespace

int serve_device(const StartUp& start_up) {
  wire::Start start{};
  const bool is_complete = start_up.block.size() == sizeof start &&
                           start_up.fds.size() == wire::kStartFds;
  if (is_complete) std::memcpy(&start, start_up.block.data(), sizeof start);
  if (!is_complete || start.version != wire::kProtocolVersion) {
    std::fprintf(stderr,
                 "openreg-device: the program speaks another version of the "
                 "protocol (%u, this is %u)\n",
                 start.version, wire::kProtocolVersion);
    return kWrongVersion;
  }
  // Never deleted: kernels may still run when the process ends.
  auto* const server = new Server(start);
  if (!server->open(start_up)) {
    std::fprintf(stderr,
                 "openreg-device: device %d cannot get the memory that it "
                 "shares with the program\n",
                 start.device);
    return kNoMemory;
  }
  StartUp::on_end_request([server] { server->end(); });
  server->serve();
  return 0;
}

}  // namespace openreg
