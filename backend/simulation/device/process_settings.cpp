#include "backend/simulation/device/process_settings.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>

namespace torch_openreg::device {

namespace {

// No settings have all bits.
constexpr uint64_t kNone = ~uint64_t{0};

std::atomic<bool> is_apart{false};  // from the host's process

std::mutex& mutex() {
  static auto& instance = *new std::mutex;
  return instance;
}

bool is_quantized_engine(uint8_t number) {
  const auto engine = static_cast<at::QEngine>(number);
  return engine == at::kNoQEngine ||
         std::ranges::find(at::Context::supportedQEngines(), engine) !=
             at::Context::supportedQEngines().end();
}

bool is_precision(uint8_t number) {
  return number <= static_cast<uint8_t>(at::Float32Precision::DEFAULT);
}

// The inverse of sparse_checks() on the host's side.
std::optional<bool> wants_sparse_checks(uint8_t number) {
  if (number == 0) return std::nullopt;
  return number == 2;
}

void check(uint64_t word, const Settings& settings) {
  const bool is_dtype =
      settings.default_dtype <
          static_cast<uint8_t>(c10::ScalarType::Undefined) &&
      c10::isFloatingType(static_cast<c10::ScalarType>(settings.default_dtype));
  if ((settings.pack() & Settings::kOfProcess) != word || !is_dtype ||
      settings.sparse_checks > 2 ||
      !is_quantized_engine(settings.quantized_engine) ||
      !is_precision(settings.precision.convolution) ||
      !is_precision(settings.precision.recurrent) ||
      !is_precision(settings.precision.matmul)) {
    throw std::invalid_argument("a malformed launch record: settings");
  }
}

void set_precision(at::Float32Op family, uint8_t number) {
  at::globalContext().setFloat32Precision(
      at::Float32Backend::MKLDNN, family,
      static_cast<at::Float32Precision>(number));
}

void apply(const Settings& settings) {
  at::Context& context = at::globalContext();
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(
      static_cast<c10::ScalarType>(settings.default_dtype)));
  context.setDeterministicAlgorithms(settings.deterministic,
                                     settings.deterministic_warn_only);
  context.setDeterministicFillUninitializedMemory(settings.fill_uninitialized);
  context.setUserEnabledMkldnn(settings.mkldnn);
  context.setDeterministicMkldnn(settings.mkldnn_deterministic);
  context.setUserEnabledNNPACK(settings.nnpack);
  context.setAllowFP16ReductionCPU(settings.half_sums);
  context.setAllowFP16BF16ReductionMathSDP(settings.half_sums_attention);
  c10::WarningUtils::set_warnAlways(settings.warn_always);
  context.setCheckSparseTensorInvariants(
      wants_sparse_checks(settings.sparse_checks));
  const auto engine = static_cast<at::QEngine>(settings.quantized_engine);
  if (engine != at::kNoQEngine && engine != context.qEngine()) {
    context.setQEngine(engine);
  }
  set_precision(at::Float32Op::CONV, settings.precision.convolution);
  set_precision(at::Float32Op::RNN, settings.precision.recurrent);
  set_precision(at::Float32Op::MATMUL, settings.precision.matmul);
}

}  // namespace

namespace detail {

std::atomic<uint64_t> followed_settings{kNone};

void follow_settings_slowly(uint64_t word) {
  const Settings settings = Settings::unpack(word);
  check(word, settings);
  const std::lock_guard lock(mutex());
  if (is_apart.load(std::memory_order_relaxed)) apply(settings);
  followed_settings.store(word, std::memory_order_release);
}

}  // namespace detail

void set_host_process(pid_t host) {
  const std::lock_guard lock(mutex());
  is_apart.store(host != getpid(), std::memory_order_relaxed);
  detail::followed_settings.store(kNone, std::memory_order_release);
}

}  // namespace torch_openreg::device
