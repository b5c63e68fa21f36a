#include "backend/aten/settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <atomic>

#include "backend/executor/settings.h"

namespace torch_openreg {

namespace {

constexpr int kOwnNumber = -1;

std::atomic<int> times_set{0};        // the process's number of threads
thread_local int times_followed = 0;  // by this thread, or kOwnNumber

void follow_number_of_threads() {
  const int times = times_set.load(std::memory_order_relaxed);
  if (C10_LIKELY(times_followed == times || times_followed == kOwnNumber)) {
    return;
  }
  times_followed = times;
  at::init_num_threads();
}

}  // namespace

uint64_t current_settings() {
  follow_number_of_threads();
  const at::Context& context = at::globalContext();
  Settings settings;
  settings.default_dtype =
      static_cast<uint8_t>(c10::get_default_dtype_as_scalartype());
  settings.threads = static_cast<uint16_t>(at::get_num_threads());
  settings.deterministic = context.deterministicAlgorithms();
  settings.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
  settings.fill_uninitialized = context.deterministicFillUninitializedMemory();
  settings.mkldnn = context.userEnabledMkldnn();
  settings.gradients = c10::GradMode::is_enabled();
#if defined(__SSE2__)
  settings.flush_denormals = _MM_GET_FLUSH_ZERO_MODE() == _MM_FLUSH_ZERO_ON;
#endif
  return settings.pack();
}

void note_number_of_threads() {
  times_followed = kOwnNumber;
  times_set.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace torch_openreg
