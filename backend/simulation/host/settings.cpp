#include "backend/simulation/host/settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/macros/Macros.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>

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

std::atomic<uint64_t> rarely_changed{setting::kNoWord};

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
  rarely_changed.store(
      setting::read<setting::Reading::kWhenSet>(at::globalContext()),
      std::memory_order_relaxed);
}

uint64_t current_settings() {
  const uint64_t own =
      setting::put<setting::Threads>(
          std::min(thread_count(), setting::max_threads())) |
      setting::put<setting::FlushDenormals>(setting::FlushDenormals::get()) |
      setting::put<setting::Gradients>(setting::Gradients::get());
  uint64_t others = rarely_changed.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(others == setting::kNoWord)) {
    refresh_settings();
    others = rarely_changed.load(std::memory_order_relaxed);
  }
  return own | others |
         setting::read<setting::Reading::kAtEachCall>(at::globalContext());
}

}  // namespace torch_openreg
