#include "isolated/device/reply_slots.h"

#include <algorithm>
#include <cstring>

namespace openreg {

ReplySlots::ReplySlots(wire::Reply* replies) : replies_(replies) {
  for (uint32_t index = 0; index < wire::kReplies; ++index) {
    slots_[index].shared = &replies[index];
    slots_[index].publish = publish;
  }
}

Completion* ReplySlots::open(uint32_t index, size_t capacity) {
  if (index >= wire::kReplies) return nullptr;
  Slot& slot = slots_[index];
  if (slot.is_open.exchange(true, std::memory_order_acq_rel)) return nullptr;
  slot.status = Status();
  slot.wants_reply = true;
  slot.reply_size = 0;
  slot.reply = std::span(slot.shared->bytes)
                   .first(std::min(capacity, slot.shared->bytes.size()));
  return &slot;
}

void ReplySlots::cancel(Completion& completion) {
  static_cast<Slot&>(completion)
      .is_open.store(false, std::memory_order_release);
}

void ReplySlots::publish(Completion& completion) {
  auto& slot = static_cast<Slot&>(completion);
  wire::Reply& reply = *slot.shared;
  const Status& status = slot.status;
  reply.code = status.code();
  if (status.ok()) {
    reply.size = static_cast<uint32_t>(slot.reply_size);
  } else {
    const std::string& message = status.message();
    const size_t size = std::min(message.size(), reply.bytes.size());
    std::memcpy(reply.bytes.data(), message.data(), size);
    reply.size = static_cast<uint32_t>(size);
  }
  slot.status = Status();
  slot.is_open.store(false, std::memory_order_release);
  reply.state.store(wire::Reply::kAnswered, std::memory_order_release);
}

}  // namespace openreg
