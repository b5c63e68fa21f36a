#include "backend/simulation/host/settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <optional>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "backend/seam.h"
#include "backend/simulation/common/settings.h"

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

// No settings have all bits.
constexpr uint64_t kUnread = ~uint64_t{0};
std::atomic<uint64_t> rarely_changed{kUnread};

uint8_t precision_of(at::Float32Op family) {
  return static_cast<uint8_t>(
      at::globalContext().float32Precision(at::Float32Backend::MKLDNN, family));
}

uint8_t sparse_checks(std::optional<bool> wanted) {
  if (!wanted.has_value()) return 0;
  return *wanted ? 2 : 1;
}

// Those that no metadata depends on: to read them takes as long as all the
// others do.
uint64_t read_rarely_changed() {
  const at::Context& context = at::globalContext();
  Settings settings{};
  settings.threads = 0;
  settings.gradients = false;
  settings.mkldnn = false;
  settings.mkldnn_deterministic = context.deterministicMkldnn();
  settings.nnpack = context.userEnabledNNPACK();
  settings.half_sums = context.allowFP16ReductionCPU();
  settings.half_sums_attention = context.allowFP16BF16ReductionMathSDP();
  settings.warn_always = c10::WarningUtils::get_warnAlways();
  settings.sparse_checks = sparse_checks(context.checkSparseTensorInvariants());
  settings.quantized_engine = static_cast<uint8_t>(context.qEngine());
  settings.precision = {.convolution = precision_of(at::Float32Op::CONV),
                        .recurrent = precision_of(at::Float32Op::RNN),
                        .matmul = precision_of(at::Float32Op::MATMUL)};
  return settings.pack();
}

}  // namespace

// PyTorch keeps the number by thread, and a thread that runs already does not
// hear of it. Those of autograd run for ever, and nobody can tell them:
// operators that a backward pass calls take this number instead.
void note_thread_count(int threads) {
  wanted_threads.store(threads, std::memory_order_relaxed);
}

// Python's setters call it. A C++ program that changes PyTorch's context by
// itself need not: the next new kind of call does.
void refresh_settings() {
  rarely_changed.store(read_rarely_changed(), std::memory_order_relaxed);
}

uint64_t current_settings() {
  const at::Context& context = at::globalContext();
  Settings settings{};
  settings.default_dtype =
      static_cast<uint8_t>(c10::get_default_dtype_as_scalartype());
  settings.threads =
      static_cast<uint16_t>(std::min(thread_count(), max_threads()));
  settings.deterministic = context.deterministicAlgorithms();
  settings.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
  settings.fill_uninitialized = context.deterministicFillUninitializedMemory();
  settings.mkldnn = context.userEnabledMkldnn();
  settings.nnpack = false;  // among the others
  settings.gradients = c10::GradMode::is_enabled();
#if defined(__SSE2__)
  settings.flush_denormals = _MM_GET_FLUSH_ZERO_MODE() == _MM_FLUSH_ZERO_ON;
#endif
  uint64_t others = rarely_changed.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(others == kUnread)) {
    refresh_settings();
    others = rarely_changed.load(std::memory_order_relaxed);
  }
  return settings.pack() | others;
}

}  // namespace torch_openreg
