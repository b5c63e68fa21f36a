#include "backend/fallback/fallback_log.h"

#include <c10/util/Exception.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "openreg/error.h"

namespace torch_openreg {

namespace {

using Key = std::pair<std::string, FallbackReason>;

struct Log {
  std::mutex mutex;
  std::map<Key, FallbackUse> uses;  // guarded by mutex
};

Log& log() {
  static auto& instance = *new Log;
  return instance;
}

bool strict_at_start() {
  const char* const value = std::getenv("OPENREG_STRICT");
  const std::string_view text = value == nullptr ? "0" : value;
  if (!text.empty() && text != "0" && text != "1") {
    // As the driver refuses its variables.
    throw c10::AcceleratorError(
        {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
        orErrorNotInitialized,
        c10::str("OpenReg error: ", orGetErrorString(orErrorNotInitialized),
                 "\nOPENREG_STRICT='", text,
                 "' is not valid: expected 0 or 1"));
  }
  return text == "1";
}

std::atomic<bool>& strict() {
  static std::atomic<bool> flag{strict_at_start()};
  return flag;
}

bool is_known(const Key& key) {
  const std::lock_guard lock(log().mutex);
  return log().uses.contains(key);
}

}  // namespace

const char* describe(FallbackReason reason) {
  switch (reason) {
    case FallbackReason::kNoKernel:
      return "no kernel for this device";
    case FallbackReason::kNotRegistered:
      return "the operator was registered after the backend";
    case FallbackReason::kArguments:
      return "a launch record can't carry its arguments or results";
    case FallbackReason::kTensor:
      return "a launch record can't carry one of its tensors";
    case FallbackReason::kByChoice:
      return "the operator is registered to fall back";
    case FallbackReason::kNotOnDevice:
      return "the device has no such operator";
  }
  return "unknown";
}

void note_fallback(const std::string& name, FallbackReason reason,
                   uint64_t bytes) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_strict(), name, " would run on the CPU, on copies (",
      describe(reason),
      "), and strict mode is on. Unset OPENREG_STRICT, or leave "
      "torch.openreg.strict(); torch.openreg.fallback_report() lists such "
      "operators.");
  const Key key(name, reason);
  // Not under the lock: it may wait for Python's.
  auto where = is_known(key) ? nullptr
                             : torch::CapturedTraceback::gather(
                                   /*python=*/true, /*script=*/false,
                                   /*cpp=*/false);
  const std::lock_guard lock(log().mutex);
  FallbackUse& use =
      log()
          .uses.try_emplace(key, FallbackUse{name, reason, 0, 0, nullptr})
          .first->second;
  ++use.count;
  use.bytes += bytes;
  if (use.where == nullptr) use.where = std::move(where);
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
  std::map<Key, FallbackUse> gone;  // its stacks need Python's lock to go
  const std::lock_guard lock(log().mutex);
  gone.swap(log().uses);
}

bool set_strict(bool value) { return strict().exchange(value); }

bool is_strict() { return strict().load(std::memory_order_relaxed); }

}  // namespace torch_openreg
