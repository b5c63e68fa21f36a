#include "backend/simulation/device/execution_scope.h"

#include <ATen/Parallel.h>
#include <c10/macros/Macros.h>

#include <optional>
#include <stdexcept>

#include "backend/simulation/common/settings.h"
#include "backend/simulation/device/process_settings.h"

namespace torch_openreg::device {

namespace {

void use_threads(int count) {
  if (count < 1 || count > setting::max_threads()) {
    throw std::invalid_argument("a malformed launch record: threads");
  }
  at::set_num_threads(count);
}

// Makes a flag of this thread what is wanted. Returns what it was, if that was
// something else.
template <typename Flag>
std::optional<bool> change(bool wanted) {
  const bool before = Flag::get();
  if (C10_LIKELY(before == wanted)) return std::nullopt;
  Flag::set(wanted);
  return before;
}

}  // namespace

ExecutionScope::ExecutionScope(uint64_t word) {
  follow_settings(word);
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value()) {
    no_profiling_.emplace();
  }
  // The number of threads belongs to each thread; torch.set_num_threads does
  // not reach those that run already.
  const auto threads = static_cast<int>(setting::get<setting::Threads>(word));
  if (at::get_num_threads() != threads) use_threads(threads);
  denormals_before_ = change<setting::FlushDenormals>(
      setting::get<setting::FlushDenormals>(word) != 0);
  gradients_before_ =
      change<setting::Gradients>(setting::get<setting::Gradients>(word) != 0);
}

// No kernel leaves them changed.
ExecutionScope::~ExecutionScope() {
  if (C10_UNLIKELY(gradients_before_.has_value())) {
    setting::Gradients::set(*gradients_before_);
  }
  if (C10_UNLIKELY(denormals_before_.has_value())) {
    setting::FlushDenormals::set(*denormals_before_);
  }
}

}  // namespace torch_openreg::device
