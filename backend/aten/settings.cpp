#include "backend/aten/settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "backend/executor/settings.h"

namespace torch_openreg {

namespace {

std::atomic<int> wanted_threads{0};  // 0: nobody has asked

int thread_count() {
  const int own = at::get_num_threads();
  const int wanted = wanted_threads.load(std::memory_order_relaxed);
  if (C10_LIKELY(wanted == 0 || wanted == own)) return own;
  const bool is_backward = torch::autograd::get_current_graph_task_id() >= 0;
  return is_backward ? wanted : own;
}

}  // namespace

void note_thread_count(int threads) {
  wanted_threads.store(threads, std::memory_order_relaxed);
}

uint64_t current_settings() {
  const at::Context& context = at::globalContext();
  Settings settings;
  settings.default_dtype =
      static_cast<uint8_t>(c10::get_default_dtype_as_scalartype());
  settings.threads = static_cast<uint16_t>(thread_count());
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

}  // namespace torch_openreg
