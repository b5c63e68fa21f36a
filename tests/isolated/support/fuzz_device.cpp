#include "support/fuzz_device.h"

namespace openreg::test {

FuzzDevice::FuzzDevice()
    : life_(SharedMemory::create("fuzz-life", wire::kLifeBytes)),
      fences_(SharedMemory::create("fuzz-fences", wire::kFencesBytes)),
      control_(reinterpret_cast<wire::Control*>(life_.data())) {
  using At = FuzzAddresses;
  host_.pinned = {At::kPinned, SharedMemory::create("fuzz", At::kHostSize)};
  host_.staging = {At::kStaging, SharedMemory::create("fuzz", At::kHostSize)};
  context_ = std::make_unique<Context>(config_, 0, 1, host_);
  host_.own = context_.get();
  static_cast<void>(context_->memory().open_view(At::kMemory, At::kMemorySize,
                                                 At::kMemoryLimit));
  reports_ = std::make_unique<Reports>(*control_);
  context_->failures().set_sink([this](const Status& status) {
    reports_->publish(status, context_->failures().is_sticky(status.code()));
  });
  reply_slots_ = std::make_unique<ReplySlots>(
      reinterpret_cast<wire::Reply*>(life_.data() + wire::kRepliesOffset));
  const DeviceParts parts{
      *context_, host_, reinterpret_cast<wire::FenceSlot*>(fences_.data()),
      reinterpret_cast<Timestamp*>(life_.data() + wire::kStampsOffset),
      *reply_slots_};
  dispatcher_ = std::make_unique<Dispatcher>(parts, kControlQueue);
}

void FuzzDevice::send(SentCommand command) {
  wire::Header& header = command.header;
  header.payload_size = static_cast<uint32_t>(command.payload.size());
  header.size =
      static_cast<uint32_t>(wire::record_size(command.payload.size()));
  if (header.number == kNextNumber) {
    header.number = dispatcher_->next_number(header.queue);
  }
  dispatcher_->handle(header, command.payload);
}

bool FuzzDevice::answers() {
  SentCommand ping;
  ping.header.kind = wire::Kind::kPing;
  ping.header.queue = kControlQueue;
  ping.header.reply = wire::kNoReply;
  ping.header.number = kNextNumber;
  const auto& done =
      reinterpret_cast<wire::FenceSlot*>(fences_.data())[kControlQueue].done;
  const uint64_t number = dispatcher_->next_number(kControlQueue);
  send(ping);
  for (int i = 0; i < 2000; ++i) {
    if (done.wait_for(number, std::chrono::milliseconds(10))) return true;
  }
  return false;
}

}  // namespace openreg::test
