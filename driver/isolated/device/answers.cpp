#include "isolated/device/answers.h"

#include <algorithm>
#include <cstring>

namespace openreg {

Answers::Answers(wire::Reply* replies) : replies_(replies) {
  for (uint32_t index = 0; index < wire::kReplies; ++index) {
    answers_[index].slot = &replies[index];
    answers_[index].publish = publish;
  }
}

Completion* Answers::open(uint32_t index, size_t capacity) {
  if (index >= wire::kReplies) return nullptr;
  Answer& answer = answers_[index];
  if (answer.is_open.exchange(true, std::memory_order_acq_rel)) return nullptr;
  answer.status = Status();
  answer.wants_reply = true;
  answer.reply_size = 0;
  answer.reply = std::span(answer.slot->bytes)
                     .first(std::min(capacity, answer.slot->bytes.size()));
  return &answer;
}

void Answers::cancel(Completion& completion) {
  static_cast<Answer&>(completion)
      .is_open.store(false, std::memory_order_release);
}

void Answers::publish(Completion& completion) {
  auto& answer = static_cast<Answer&>(completion);
  wire::Reply& reply = *answer.slot;
  const Status& status = answer.status;
  reply.code = status.code();
  if (status.ok()) {
    reply.size = static_cast<uint32_t>(answer.reply_size);
  } else {
    const std::string& message = status.message();
    const size_t size = std::min(message.size(), reply.bytes.size());
    std::memcpy(reply.bytes.data(), message.data(), size);
    reply.size = static_cast<uint32_t>(size);
  }
  answer.status = Status();
  answer.is_open.store(false, std::memory_order_release);
  reply.state.store(wire::Reply::kAnswered, std::memory_order_release);
}

}  // namespace openreg
