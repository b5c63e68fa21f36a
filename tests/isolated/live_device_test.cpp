// Hostile commands to a device process that lives: it answers each and never
// dies. 100,000 of them; OPENREG_STRESS_SCALE sends more.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "isolated/process/device_process.h"
#include "isolated/ring.h"
#include "support/fuzz_device.h"

namespace openreg::test {
namespace {

constexpr size_t kLives = 100;
constexpr size_t kCommands = 1000;  // in each life

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

// A device process and the program's end of what it shares, without the
// driver's care: any bytes can be sent.
class LiveDevice {
 public:
  LiveDevice()
      : life_(SharedMemory::create("live", wire::kLifeBytes)),
        fences_(SharedMemory::create("live", wire::kFencesBytes)),
        pinned_(SharedMemory::create("live", FuzzAddresses::kHostSize)),
        staging_(SharedMemory::create("live", FuzzAddresses::kHostSize)),
        ring_(RingMapping::map(life_.fd())),
        control_(*reinterpret_cast<wire::Control*>(life_.data())) {
    StartOptions options;
    options.fds = {life_.fd(), fences_.fd(), pinned_.fd(), staging_.fd()};
    const wire::Start start = make_start();
    options.block.assign(reinterpret_cast<const char*>(&start), sizeof start);
    options.on_death = [](pid_t /*pid*/, const std::string& reason) {
      ADD_FAILURE() << "the device process " << reason;
    };
    EXPECT_TRUE(DeviceProcess::start(std::move(options), &process_).ok());
  }

  bool is_alive() const { return process_ != nullptr && process_->is_alive(); }
  uint64_t failures() const { return control_.failures.load(); }

  // Sends a command with the sizes that it says, and waits until it was taken.
  [[nodiscard]] bool send(SentCommand command, bool with_right_sizes) {
    wire::Header& header = command.header;
    const size_t bytes = wire::record_size(command.payload.size());
    header.payload_size = static_cast<uint32_t>(command.payload.size());
    if (with_right_sizes) header.size = static_cast<uint32_t>(bytes);
    if (header.number == FuzzDevice::kNextNumber) {
      header.number = fence(header.queue).value() + 1;
    }
    std::memcpy(ring_.at(sent_), &header, sizeof header);
    if (!command.payload.empty()) {
      std::memcpy(ring_.at(sent_) + sizeof header, command.payload.data(),
                  command.payload.size());
    }
    sent_ += bytes;
    control_.produced.advance(sent_);
    for (int i = 0; i < 2000 && is_alive(); ++i) {
      if (control_.consumed.wait_for(sent_, std::chrono::milliseconds(10))) {
        return true;
      }
    }
    return false;
  }

  // Whether it answers a request.
  bool answers() {
    SentCommand ping;
    ping.header.kind = wire::Kind::kPing;
    ping.header.queue = FuzzDevice::kControlQueue;
    ping.header.reply = wire::kNoReply;
    // What was asked before may not be done yet.
    for (int i = 0; i < 1000 && is_alive(); ++i) {
      const Timeline& done = fence(FuzzDevice::kControlQueue);
      const uint64_t number = done.value() + 1;
      ping.header.number = number;
      if (!send(ping, true)) return false;
      if (done.wait_for(number, std::chrono::milliseconds(20))) return true;
    }
    return false;
  }

 private:
  static wire::Start make_start() {
    using At = FuzzAddresses;
    wire::Start start{};
    start.version = wire::kProtocolVersion;
    start.epoch = 1;
    start.memory_base = At::kMemory;
    start.memory_size = At::kMemorySize;
    start.memory_limit = At::kMemoryLimit;
    start.pinned_base = At::kPinned;
    start.pinned_size = At::kHostSize;
    start.staging_base = At::kStaging;
    start.staging_size = At::kHostSize;
    start.control_queue = FuzzDevice::kControlQueue;
    return start;
  }

  Timeline& fence(uint32_t queue) {
    return reinterpret_cast<wire::FenceSlot*>(
               fences_.data())[queue % wire::kFenceSlots]
        .done;
  }

  SharedMemory life_;
  SharedMemory fences_;
  SharedMemory pinned_;
  SharedMemory staging_;
  RingMapping ring_;
  wire::Control& control_;
  uint64_t sent_ = 0;
  std::unique_ptr<DeviceProcess> process_;
};

TEST(LiveDeviceTest, ADeviceOfAnotherVersionDoesNotStart) {
  SharedMemory life = SharedMemory::create("live", wire::kLifeBytes);
  wire::Start start{};
  start.version = wire::kProtocolVersion + 1;
  StartOptions options;
  options.fds = {life.fd(), life.fd(), life.fd(), life.fd()};
  options.block.assign(reinterpret_cast<const char*>(&start), sizeof start);
  std::atomic<uint32_t> dead{0};
  std::string why;
  options.on_death = [&](pid_t /*pid*/, const std::string& reason) {
    why = reason;
    dead.store(1);
    dead.notify_all();
  };
  std::unique_ptr<DeviceProcess> process;
  ASSERT_TRUE(DeviceProcess::start(std::move(options), &process).ok());
  dead.wait(0);
  EXPECT_EQ(why, "exited with code 3");
}

TEST(LiveDeviceStressTest, MutatedCommandsAreAnsweredAndTheDeviceLives) {
  const uint64_t seed = number_from("OPENREG_FUZZ_SEED", 20261116);
  const size_t lives = kLives * number_from("OPENREG_STRESS_SCALE", 1);
  ScriptMutator mutator(seed, sample_scripts());
  std::mt19937_64 random(seed);
  uint64_t refused = 0;
  for (size_t life = 0; life < lives; ++life) {
    LiveDevice device;
    for (size_t sent = 0; sent < kCommands;) {
      for (SentCommand& command : mutator.next()) {
        const bool right_sizes = random() % 50 != 0;
        if (!right_sizes) {
          command.header.size = static_cast<uint32_t>(random() >> random() % 64);
        }
        ASSERT_TRUE(device.send(std::move(command), right_sizes))
            << "command " << sent << " of life " << life;
        if (++sent % 100 != 0) continue;
        ASSERT_TRUE(device.answers());
      }
    }
    ASSERT_TRUE(device.answers())
        << "life " << life << " of OPENREG_FUZZ_SEED=" << seed;
    ASSERT_TRUE(device.is_alive());
    refused += device.failures();
  }
  EXPECT_GT(refused, lives);
}

}  // namespace
}  // namespace openreg::test
