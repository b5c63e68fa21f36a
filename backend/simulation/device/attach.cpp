#include "backend/simulation/device/attach.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/simulation/common/attach_message.h"
#include "backend/simulation/device/process_settings.h"
#include "backend/simulation/record/format.h"
#include "backend/simulation/record/writer.h"

namespace torch_openreg::device {

namespace {

bool has_kernel(const c10::OperatorHandle& op) {
  constexpr std::array kKeys = {
      c10::DispatchKey::CPU, c10::DispatchKey::SparseCPU,
      c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::QuantizedCPU,
      c10::DispatchKey::NestedTensorCPU};
  return std::ranges::any_of(kKeys, [&](c10::DispatchKey key) {
    return op.hasComputedKernelForDispatchKey(key);
  });
}

std::vector<uint64_t> operator_ids() {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<uint64_t> ids;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || !has_kernel(*op)) continue;
    ids.push_back(record::id_of(c10::toString(name)));
  }
  std::ranges::sort(ids);
  return ids;
}

}  // namespace

orError_t attach(orKernelContext* ctx) {
  AttachMessage message{};
  if (ctx->size != sizeof message) {
    throw std::invalid_argument("a malformed message of a host");
  }
  std::memcpy(&message, ctx->args, sizeof message);
  if (message.record_version != record::kVersion) {
    throw std::invalid_argument("the host writes launch records of version " +
                                std::to_string(message.record_version) +
                                ", and the device reads version " +
                                std::to_string(record::kVersion));
  }
  set_host_process(static_cast<pid_t>(message.host_process));
  const std::vector<uint64_t> ids = operator_ids();
  return orKernelReply(ctx, ids.data(), ids.size() * sizeof ids[0]);
}

}  // namespace torch_openreg::device
