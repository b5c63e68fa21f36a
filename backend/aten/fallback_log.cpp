#include "backend/aten/fallback_log.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

namespace torch_openreg {

namespace {

struct Log {
  std::mutex mutex;
  std::map<std::pair<std::string, FallbackReason>, FallbackUse>
      uses;  // guarded by mutex
};

Log& log() {
  static auto& instance = *new Log;
  return instance;
}

bool strict_at_start() {
  const char* const value = std::getenv("OPENREG_STRICT");
  return value != nullptr && std::string_view(value) == "1";
}

std::atomic<bool>& strict() {
  static std::atomic<bool> flag{strict_at_start()};
  return flag;
}

}  // namespace

const char* describe(FallbackReason reason) {
  switch (reason) {
    case FallbackReason::kNotRegistered:
      return "the operator was registered after the backend";
    case FallbackReason::kArguments:
      return "a launch record can't carry its arguments or results";
    case FallbackReason::kTensor:
      return "a launch record can't carry one of its tensors";
  }
  return "unknown";
}

void note_fallback(const std::string& name, FallbackReason reason,
                   uint64_t bytes) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_strict(), name, " would run on the CPU, on copies (",
      describe(reason),
      "), and strict mode is on. Leave it by OPENREG_STRICT=0 or outside of "
      "torch.openreg.strict(); torch.openreg.fallback_report() lists such "
      "operators.");
  const std::lock_guard lock(log().mutex);
  FallbackUse& use = log().uses[{name, reason}];
  use.name = name;
  use.reason = reason;
  ++use.count;
  use.bytes += bytes;
}

std::vector<FallbackUse> fallback_uses() {
  std::vector<FallbackUse> uses;
  {
    const std::lock_guard lock(log().mutex);
    for (const auto& [key, use] : log().uses) uses.push_back(use);
  }
  std::ranges::stable_sort(uses, std::ranges::greater{}, &FallbackUse::count);
  return uses;
}

void reset_fallback_uses() {
  const std::lock_guard lock(log().mutex);
  log().uses.clear();
}

bool set_strict(bool value) { return strict().exchange(value); }

bool is_strict() { return strict().load(std::memory_order_relaxed); }

}  // namespace torch_openreg
