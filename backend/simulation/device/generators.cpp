#include "backend/simulation/device/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace torch_openreg::device {

namespace {

// Each takes five kilobytes.
constexpr size_t kMaxSources = 65536;

struct Sources {
  std::mutex mutex;
  std::unordered_map<uint64_t, at::Generator> by_id;  // guarded by mutex
};

Sources& sources() {
  static auto& instance = *new Sources;
  return instance;
}

uint64_t number_at(orKernelContext* ctx, size_t offset) {
  uint64_t number = 0;
  if (ctx->size < offset + sizeof number) {
    throw std::invalid_argument("a malformed message for a generator");
  }
  std::memcpy(&number, static_cast<const char*>(ctx->args) + offset,
              sizeof number);
  return number;
}

at::Generator find_or_make(uint64_t id) {
  Sources& all = sources();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_id.find(id);
  if (found != all.by_id.end()) return found->second;
  if (all.by_id.size() == kMaxSources) {
    throw std::invalid_argument(
        "the device has too many generators: it can have " +
        std::to_string(kMaxSources) + " at a time");
  }
  return all.by_id.emplace(id, at::detail::createCPUGenerator()).first->second;
}

}  // namespace

at::Generator find_generator(uint64_t id) {
  Sources& all = sources();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_id.find(id);
  if (found != all.by_id.end()) return found->second;
  throw std::invalid_argument("the device has no generator of this number");
}

orError_t set_generator(orKernelContext* ctx) {
  at::Generator source = find_or_make(number_at(ctx, 0));
  const std::lock_guard lock(source.mutex());
  if (ctx->size == 2 * sizeof(uint64_t)) {
    source.set_current_seed(number_at(ctx, sizeof(uint64_t)));
    return orSuccess;
  }
  const size_t bytes = ctx->size - sizeof(uint64_t);
  const at::Tensor state =
      at::empty({static_cast<int64_t>(bytes)}, at::dtype(at::kByte));
  std::memcpy(state.mutable_data_ptr(),
              static_cast<const char*>(ctx->args) + sizeof(uint64_t), bytes);
  source.unsafeGetGeneratorImpl()->set_state(*state.unsafeGetTensorImpl());
  return orSuccess;
}

orError_t get_generator(orKernelContext* ctx) {
  at::Generator source = find_generator(number_at(ctx, 0));
  const std::lock_guard lock(source.mutex());
  const at::Tensor state(source.unsafeGetGeneratorImpl()->get_state());
  return orKernelReply(ctx, state.const_data_ptr(), state.nbytes());
}

orError_t drop_generator(orKernelContext* ctx) {
  Sources& all = sources();
  const std::lock_guard lock(all.mutex);
  all.by_id.erase(number_at(ctx, 0));
  return orSuccess;
}

}  // namespace torch_openreg::device
