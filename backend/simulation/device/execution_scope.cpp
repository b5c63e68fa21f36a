#include "backend/simulation/device/execution_scope.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <stdexcept>

#if defined(__SSE2__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

#include "backend/simulation/common/settings.h"
#include "backend/simulation/device/process_settings.h"

namespace torch_openreg::device {

namespace {

#if defined(__SSE2__)
bool flushes_denormals() {
  return _MM_GET_FLUSH_ZERO_MODE() == _MM_FLUSH_ZERO_ON;
}

void flush_denormals(bool on) {
  _MM_SET_FLUSH_ZERO_MODE(on ? _MM_FLUSH_ZERO_ON : _MM_FLUSH_ZERO_OFF);
  _MM_SET_DENORMALS_ZERO_MODE(on ? _MM_DENORMALS_ZERO_ON
                                 : _MM_DENORMALS_ZERO_OFF);
}
#else
bool flushes_denormals() { return false; }
void flush_denormals(bool /*on*/) {}
#endif

void use_threads(int count) {
  if (count < 1 || count > max_threads()) {
    throw std::invalid_argument("a malformed launch record: threads");
  }
  at::set_num_threads(count);
}

}  // namespace

ExecutionScope::ExecutionScope(uint64_t word)
    : denormals_before_(flushes_denormals()),
      gradients_before_(c10::GradMode::is_enabled()) {
  const Settings settings = Settings::unpack(word);
  follow_settings(word);
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value()) {
    no_profiling_.emplace();
  }
  // The number of threads belongs to each thread; torch.set_num_threads does
  // not reach those that run already.
  if (at::get_num_threads() != settings.threads) use_threads(settings.threads);
  if (denormals_before_ != settings.flush_denormals) {
    flush_denormals(settings.flush_denormals);
  }
  if (gradients_before_ != settings.gradients) {
    c10::GradMode::set_enabled(settings.gradients);
  }
}

ExecutionScope::~ExecutionScope() {
  if (c10::GradMode::is_enabled() != gradients_before_) {
    c10::GradMode::set_enabled(gradients_before_);
  }
  if (flushes_denormals() != denormals_before_) {
    flush_denormals(denormals_before_);
  }
}

}  // namespace torch_openreg::device
