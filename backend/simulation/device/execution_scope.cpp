#include "backend/simulation/device/execution_scope.h"

#include <ATen/Parallel.h>

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

// Changes a flag of this thread, unless it is so already.
template <typename Flag>
void change(bool before, bool wanted) {
  if (before != wanted) Flag::set(wanted);
}

}  // namespace

ExecutionScope::ExecutionScope(uint64_t word)
    : denormals_before_(setting::FlushDenormals::get()),
      gradients_before_(setting::Gradients::get()) {
  follow_settings(word);
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value()) {
    no_profiling_.emplace();
  }
  // The number of threads belongs to each thread; torch.set_num_threads does
  // not reach those that run already.
  const auto threads = static_cast<int>(setting::get<setting::Threads>(word));
  if (at::get_num_threads() != threads) use_threads(threads);
  change<setting::FlushDenormals>(
      denormals_before_, setting::get<setting::FlushDenormals>(word) != 0);
  change<setting::Gradients>(gradients_before_,
                             setting::get<setting::Gradients>(word) != 0);
}

ExecutionScope::~ExecutionScope() {
  change<setting::Gradients>(setting::Gradients::get(), gradients_before_);
  change<setting::FlushDenormals>(setting::FlushDenormals::get(),
                                  denormals_before_);
}

}  // namespace torch_openreg::device
