// The table of settings: what an operator runs under besides its arguments.
// From it come the word of a launch record (settings.h), what the host reads
// and what a device process follows.
//
// Each structure is a row. To add a setting, add one here and its name to Table
// at the end, a line to docs/launch-record.md and its setters to
// torch_openreg/_patches.py; tests/python/test_settings_table.py compares those
// with this.
#pragma once

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#if defined(__SSE2__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

#include "backend/simulation/common/settings_row.h"

namespace torch_openreg::setting {

// The host may know more than PyTorch: it reads this one itself.
struct Threads {
  static constexpr Row kRow{.name = "number of threads",
                            .bits = 16,
                            .owner = Owner::kThread,
                            .setters = "set_num_threads"};
};

struct FlushDenormals {
  static constexpr Row kRow{.name = "denormal numbers are flushed to zero",
                            .owner = Owner::kThread};
#if defined(__SSE2__)
  static bool get() { return _MM_GET_FLUSH_ZERO_MODE() == _MM_FLUSH_ZERO_ON; }
  static void set(bool on) {
    _MM_SET_FLUSH_ZERO_MODE(on ? _MM_FLUSH_ZERO_ON : _MM_FLUSH_ZERO_OFF);
    _MM_SET_DENORMALS_ZERO_MODE(on ? _MM_DENORMALS_ZERO_ON
                                   : _MM_DENORMALS_ZERO_OFF);
  }
#else
  static bool get() { return false; }
  static void set(bool /*on*/) {}
#endif
};

// Some kernels keep more for a backward pass.
struct Gradients {
  static constexpr Row kRow{.name = "gradients are enabled",
                            .owner = Owner::kThread};
  static bool get() { return c10::GradMode::is_enabled(); }
  static void set(bool on) { c10::GradMode::set_enabled(on); }
};

struct DefaultDtype {
  static constexpr Row kRow{
      .name = "default dtype",
      .bits = 8,
      .setters = "_set_default_dtype _set_default_tensor_type"};
  static uint64_t read(const at::Context& /*context*/) {
    return static_cast<uint64_t>(c10::get_default_dtype_as_scalartype());
  }
  static bool is_good(uint64_t value) {
    return value < static_cast<uint64_t>(c10::ScalarType::Undefined) &&
           c10::isFloatingType(static_cast<c10::ScalarType>(value));
  }
  static void apply(at::Context& /*context*/, uint64_t value) {
    c10::set_default_dtype(
        c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(value)));
  }
};

// Bit 0: whether they are wanted; bit 1: whether others only warn.
struct Deterministic {
  static constexpr Row kRow{.name = "deterministic algorithms, warn only",
                            .bits = 2,
                            .setters = "_set_deterministic_algorithms"};
  static uint64_t read(const at::Context& context) {
    return (context.deterministicAlgorithms() ? 1 : 0) |
           (context.deterministicAlgorithmsWarnOnly() ? 2 : 0);
  }
  static bool is_good(uint64_t /*value*/) { return true; }
  static void apply(at::Context& context, uint64_t value) {
    context.setDeterministicAlgorithms((value & 1) != 0, (value & 2) != 0);
  }
};

struct FillUninitialized
    : ContextFlag<&at::Context::deterministicFillUninitializedMemory,
                  &at::Context::setDeterministicFillUninitializedMemory> {
  static constexpr Row kRow{
      .name = "fill uninitialized memory",
      .setters = "_set_deterministic_fill_uninitialized_memory"};
};

struct Mkldnn : ContextFlag<&at::Context::userEnabledMkldnn,
                            &at::Context::setUserEnabledMkldnn> {
  static constexpr Row kRow{.name = "oneDNN", .setters = "_set_mkldnn_enabled"};
};

struct MkldnnDeterministic : ContextFlag<&at::Context::deterministicMkldnn,
                                         &at::Context::setDeterministicMkldnn> {
  static constexpr Row kRow{.name = "deterministic oneDNN",
                            .reading = Reading::kWhenSet,
                            .setters = "_set_mkldnn_deterministic"};
};

struct Nnpack : ContextFlag<&at::Context::userEnabledNNPACK,
                            &at::Context::setUserEnabledNNPACK> {
  static constexpr Row kRow{.name = "NNPACK",
                            .reading = Reading::kWhenSet,
                            .setters = "_set_nnpack_enabled"};
};

struct HalfSums : ContextFlag<&at::Context::allowFP16ReductionCPU,
                              &at::Context::setAllowFP16ReductionCPU> {
  static constexpr Row kRow{
      .name = "reduced-precision sums in half-precision products",
      .reading = Reading::kWhenSet,
      .setters = "_set_cpu_allow_fp16_reduced_precision_reduction"};
};

// Of the attention that is made of products.
struct HalfSumsAttention
    : ContextFlag<&at::Context::allowFP16BF16ReductionMathSDP,
                  &at::Context::setAllowFP16BF16ReductionMathSDP> {
  static constexpr Row kRow{
      .name = "reduced-precision sums in attention",
      .reading = Reading::kWhenSet,
      .setters = "_set_math_sdp_allow_fp16_bf16_reduction"};
};

struct WarnAlways {
  static constexpr Row kRow{
      .name = "PyTorch repeats warnings that it normally gives once",
      .reading = Reading::kWhenSet,
      .setters = "_set_warnAlways"};
  static uint64_t read(const at::Context& /*context*/) {
    return c10::WarningUtils::get_warnAlways() ? 1 : 0;
  }
  static bool is_good(uint64_t /*value*/) { return true; }
  static void apply(at::Context& /*context*/, uint64_t value) {
    c10::WarningUtils::set_warnAlways(value != 0);
  }
};

struct SparseChecks {
  static constexpr Row kRow{
      .name = "checks of sparse tensors: not set, off, on",
      .bits = 2,
      .reading = Reading::kWhenSet,
      .setters = "_set_check_sparse_tensor_invariants"};
  static uint64_t read(const at::Context& context) {
    const std::optional<bool> wanted = context.checkSparseTensorInvariants();
    if (!wanted.has_value()) return 0;
    return *wanted ? 2 : 1;
  }
  static bool is_good(uint64_t value) { return value <= 2; }
  static void apply(at::Context& context, uint64_t value) {
    context.setCheckSparseTensorInvariants(
        value == 0 ? std::nullopt : std::optional(value == 2));
  }
};

struct QuantizedEngine {
  static constexpr Row kRow{.name = "engine of quantized operators",
                            .bits = 4,
                            .reading = Reading::kWhenSet,
                            .setters = "_set_qengine"};
  static uint64_t read(const at::Context& context) {
    return static_cast<uint64_t>(context.qEngine());
  }
  static bool is_good(uint64_t value) {
    const auto engine = static_cast<at::QEngine>(value);
    const auto& engines = at::Context::supportedQEngines();
    return engine == at::kNoQEngine ||
           std::ranges::find(engines, engine) != engines.end();
  }
  static void apply(at::Context& context, uint64_t value) {
    const auto engine = static_cast<at::QEngine>(value);
    if (engine != at::kNoQEngine && engine != context.qEngine()) {
      context.setQEngine(engine);
    }
  }
};

// The precisions have setters in common.
inline constexpr std::string_view kPrecisionSetters =
    "_set_float32_matmul_precision _set_fp32_precision_setter "
    "_set_onednn_allow_tf32";

struct ConvolutionPrecision : Precision<at::Float32Op::CONV> {
  static constexpr Row kRow{.name = "precision of float32 in convolutions",
                            .bits = 3,
                            .reading = Reading::kWhenSet,
                            .setters = kPrecisionSetters};
};

struct RecurrentPrecision : Precision<at::Float32Op::RNN> {
  static constexpr Row kRow{.name = "precision of float32 in recurrent layers",
                            .bits = 3,
                            .reading = Reading::kWhenSet,
                            .setters = kPrecisionSetters};
};

struct MatmulPrecision : Precision<at::Float32Op::MATMUL> {
  static constexpr Row kRow{.name = "precision of float32 in matrix products",
                            .bits = 3,
                            .reading = Reading::kWhenSet,
                            .setters = kPrecisionSetters};
};

// In the order of their bits.
template <typename... Rows>
struct List {};
using Table =
    List<Threads, FlushDenormals, Gradients, DefaultDtype, Deterministic,
         FillUninitialized, Mkldnn, MkldnnDeterministic, Nnpack, HalfSums,
         HalfSumsAttention, WarnAlways, SparseChecks, QuantizedEngine,
         ConvolutionPrecision, RecurrentPrecision, MatmulPrecision>;

}  // namespace torch_openreg::setting
