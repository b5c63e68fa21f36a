#include "backend/simulation/host/engine.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backend/fallback/fallback.h"
#include "backend/pytorch/tensor_lists.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/sync_debug.h"
#include "backend/seam.h"
#include "backend/simulation/common/warnings.h"
#include "backend/simulation/host/call_kinds.h"
#include "backend/simulation/host/encode.h"
#include "backend/simulation/host/executor.h"
#include "backend/simulation/host/metadata.h"
#include "backend/simulation/host/new_output.h"
#include "backend/simulation/host/settings.h"
#include "backend/simulation/host/synchronous.h"

namespace torch_openreg {

namespace {

std::atomic<uint64_t> launches{0};
std::atomic<uint64_t> synchronous{0};

using Outputs = c10::SmallVector<at::Tensor, 4>;

std::span<c10::IValue> arguments_of(const OperatorInfo& info,
                                    torch::jit::Stack& stack) {
  const size_t count = info.written.size();
  return {stack.data() + stack.size() - count, count};
}

void add_output(const record::OutputShape& shape, const at::Tensor& output,
                record::Writer& writer) {
  const auto address = reinterpret_cast<uint64_t>(
      output.unsafeGetTensorImpl()->unsafe_storage().data());
  writer.add_output(shape.tensor, address, shape.bytes);
}

Outputs make_outputs(const record::CallMetadata& metadata,
                     c10::DeviceIndex device, record::Writer& writer) {
  Outputs outputs;
  outputs.reserve(metadata.outputs.size());
  for (const record::OutputShape& shape : metadata.outputs) {
    if (shape.tensor.empty()) {
      outputs.emplace_back();
      continue;
    }
    outputs.push_back(make_output(shape, device));
    add_output(shape, outputs.back(), writer);
  }
  return outputs;
}

// Replaces the arguments on the stack by the results; takes the outputs.
void give_results(const OperatorInfo& info,
                  const record::CallMetadata& metadata, Outputs& outputs,
                  torch::jit::Stack* stack) {
  const std::span<c10::IValue> arguments = arguments_of(info, *stack);
  c10::SmallVector<c10::IValue, 4> results;
  auto next_return = metadata.returns.begin();
  auto next_output = outputs.begin();
  for (const int argument : info.aliased) {
    if (argument >= 0) {
      results.push_back(std::move(arguments[static_cast<size_t>(argument)]));
      continue;
    }
    const int32_t length = *next_return++;
    if (length == record::CallMetadata::kSingle) {
      results.emplace_back(std::move(*next_output++));
      continue;
    }
    c10::List<at::Tensor> list;
    list.reserve(static_cast<size_t>(length));
    for (int32_t i = 0; i < length; ++i) {
      list.push_back(std::move(*next_output++));
    }
    results.emplace_back(std::move(list));
  }
  torch::jit::drop(*stack, arguments.size());
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

void launch_record(const OperatorInfo& info, Encoder& encoder,
                   uint64_t settings, uint16_t flags = 0) {
  record::Words words;
  encoder.writer().finish(info.name, info.id, settings, flags,
                          static_cast<uint32_t>(info.written.size()), &words);
  launch_here(ExecutorKernel::kRunOperator, words.data(),
              words.size() * sizeof(record::Word),
              getCurrentOpenRegStream(encoder.device()), encoder.length());
  launches.fetch_add(1, std::memory_order_relaxed);
}

// Returns the outputs, which the device will write.
Outputs launch_to_outputs(const OperatorInfo& info, Encoder& encoder,
                          const record::CallMetadata& metadata,
                          uint64_t settings, uint16_t flags = 0) {
  Outputs outputs = make_outputs(metadata, encoder.device(), encoder.writer());
  for (const record::OutputShape& shape : metadata.outputs) {
    encoder.note_output(shape.bytes);
  }
  launch_record(info, encoder, settings, flags);
  return outputs;
}

void run_asynchronously(const OperatorInfo& info, Encoder& encoder,
                        const record::CallMetadata& metadata, uint64_t settings,
                        torch::jit::Stack* stack, uint16_t flags = 0) {
  Outputs outputs = launch_to_outputs(info, encoder, metadata, settings, flags);
  give_results(info, metadata, outputs, stack);
}

// Leaves what a run has given in the place of the arguments.
void give_waited(const OperatorInfo& info, Encoder& encoder, uint64_t settings,
                 bool is_cacheable, WaitedResults waited,
                 torch::jit::Stack* stack) {
  const std::span<c10::IValue> arguments = arguments_of(info, *stack);
  synchronous.fetch_add(1, std::memory_order_relaxed);
  if (waited.metadata == nullptr) {
    info.gives_composites.store(true, std::memory_order_relaxed);
  } else if (is_cacheable && !waited.has_warned) {
    remember(info, encoder, settings, arguments, waited.metadata);
  }
  c10::SmallVector<c10::IValue, 4> results;
  auto next = waited.values.begin();
  for (const int argument : info.aliased) {
    results.push_back(argument >= 0
                          ? std::move(arguments[static_cast<size_t>(argument)])
                          : std::move(*next++));
  }
  torch::jit::drop(*stack, arguments.size());
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

// Runs the operator and waits; see run_and_wait().
void run_synchronously(const OperatorInfo& info, Encoder& encoder,
                       uint64_t settings, bool is_cacheable,
                       torch::jit::Stack* stack) {
  give_waited(info, encoder, settings, is_cacheable,
              run_and_wait(info, encoder, arguments_of(info, *stack), settings),
              stack);
}

// Whether the stream has done its work soon. It may wait for something that
// this thread is still to do, so there is an end to it.
bool becomes_idle(const OpenRegStream& stream) {
  constexpr auto kPatience = std::chrono::milliseconds(100);
  auto pause = std::chrono::microseconds(50);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!stream.query()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
    pause += pause / 2;
  }
  return true;
}

// Whether to run a call on the device for what it gives, and not on the host as
// well: it takes long, and what is before it is done.
bool is_run_first(const OperatorInfo& info, const Encoder& encoder) {
  constexpr size_t kLargeBytes = size_t{256} << 10;
  return (info.is_heavy || encoder.largest_bytes() >= kLargeBytes) &&
         becomes_idle(getCurrentOpenRegStream(encoder.device()));
}

// Gives the outputs their sizes first, then runs the operator again.
void run_resized(const OperatorInfo& info, const record::CallMetadata& metadata,
                 torch::jit::Stack* stack) {
  resize_outputs(metadata, arguments_of(info, *stack));
  const NoWarnings no_warnings;  // they were given
  run_operator(info, stack);
}

// See Note [How an operator runs].
void run_new_kind(const OperatorInfo& info, Encoder& encoder,
                  torch::jit::Stack* stack) {
  refresh_settings();
  const uint64_t settings = current_settings();
  const std::span<c10::IValue> arguments = arguments_of(info, *stack);
  if (info.gives_composites.load(std::memory_order_relaxed)) {
    return run_synchronously(info, encoder, settings, /*is_cacheable=*/false,
                             stack);
  }
  bool has_warned = false;
  Metadata metadata = infer_metadata(info, encoder, settings, arguments);
  if (metadata == nullptr) {
    if (is_run_first(info, encoder)) {
      WaitedResults waited = run_and_wait(info, encoder, arguments, settings,
                                          /*is_checked=*/false);
      if (!waited.has_failed) {
        return give_waited(info, encoder, settings, /*is_cacheable=*/true,
                           std::move(waited), stack);
      }
    }
    metadata =
        learn_by_rehearsal(info, encoder, settings, arguments, &has_warned);
  }
  if (metadata == nullptr) {
    return run_synchronously(info, encoder, settings, /*is_cacheable=*/true,
                             stack);
  }
  if (metadata->resizes.empty()) {
    return run_asynchronously(info, encoder, *metadata, settings, stack,
                              has_warned ? record::kQuiet : 0);
  }
  if (encoder.writer().has_shared_storage() ||
      !can_resize_first(info, *metadata)) {
    return run_synchronously(info, encoder, settings, /*is_cacheable=*/false,
                             stack);
  }
  run_resized(info, *metadata, stack);
}

// A call without boxing whose kind is new. Returns the results.
torch::jit::Stack run_boxed(const OperatorInfo& info, Encoder& encoder,
                            c10::function_ref<void(torch::jit::Stack&)> box) {
  torch::jit::Stack stack;
  box(stack);
  if (info.is_on(encoder.device())) {
    run_new_kind(info, encoder, &stack);
  } else {
    cpu_fallback(info.op, &stack, FallbackReason::kNotOnDevice);
  }
  return stack;
}

}  // namespace

void run_operator(const OperatorInfo& info, torch::jit::Stack* stack) {
  const std::span<c10::IValue> arguments = arguments_of(info, *stack);
  if (info.takes_optionals) unify_optional_tensors(info.op.schema(), arguments);
  Encoder encoder(info);
  if (!info.is_carryable) {
    return cpu_fallback(info.op, stack, FallbackReason::kArguments);
  }
  if (!encoder.encode(arguments)) {
    return cpu_fallback(info.op, stack, FallbackReason::kTensor);
  }
  const DeviceScope scope(encoder.device());
  if (C10_UNLIKELY(!info.is_on(encoder.device()))) {
    return cpu_fallback(info.op, stack, FallbackReason::kNotOnDevice);
  }
  const uint64_t settings = current_settings();
  if (encoder.has_composites() || info.needs_data(arguments)) {
    note_synchronization();
    return run_synchronously(info, encoder, settings, /*is_cacheable=*/false,
                             stack);
  }
  const Metadata metadata = find_metadata(info, encoder, settings);
  if (C10_UNLIKELY(metadata == nullptr)) {
    return run_new_kind(info, encoder, stack);
  }
  if (C10_UNLIKELY(!metadata->resizes.empty())) {
    return run_resized(info, *metadata, stack);
  }
  run_asynchronously(info, encoder, *metadata, settings, stack);
}

at::Tensor run_encoded(const OperatorInfo& info, Encoder& encoder,
                       c10::function_ref<void(torch::jit::Stack&)> box) {
  const DeviceScope scope(encoder.device());
  const uint64_t settings = current_settings();
  const Metadata metadata = find_metadata(info, encoder, settings);
  if (C10_UNLIKELY(metadata == nullptr)) {
    return std::move(run_boxed(info, encoder, box).back()).toTensor();
  }
  const record::OutputShape& shape = metadata->outputs.front();
  at::Tensor output = make_output(shape, encoder.device());
  add_output(shape, output, encoder.writer());
  encoder.note_output(shape.bytes);
  launch_record(info, encoder, settings);
  return output;
}

void run_encoded_to(const OperatorInfo& info, Encoder& encoder,
                    c10::function_ref<void(torch::jit::Stack&)> box,
                    std::span<at::Tensor> results) {
  const DeviceScope scope(encoder.device());
  const uint64_t settings = current_settings();
  const Metadata metadata = find_metadata(info, encoder, settings);
  if (C10_UNLIKELY(metadata == nullptr)) {
    torch::jit::Stack given = run_boxed(info, encoder, box);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i] = std::move(given[i]).toTensor();
    }
    return;
  }
  std::ranges::move(launch_to_outputs(info, encoder, *metadata, settings),
                    results.begin());
}

void run_encoded_in_place(const OperatorInfo& info, Encoder& encoder,
                          c10::function_ref<void(torch::jit::Stack&)> box) {
  const DeviceScope scope(encoder.device());
  const uint64_t settings = current_settings();
  if (C10_LIKELY(find_metadata(info, encoder, settings) != nullptr)) {
    return launch_record(info, encoder, settings);
  }
  run_boxed(info, encoder, box);
}

void launch_prepared(const OperatorInfo& info,
                     std::span<c10::IValue> arguments) {
  Encoder encoder(info);
  TORCH_INTERNAL_ASSERT(encoder.encode(arguments));
  const DeviceScope scope(encoder.device());
  const uint64_t settings = current_settings();
  if (!is_known_signature(info, encoder, settings, arguments)) {
    bool has_warned = false;
    learn_by_rehearsal(info, encoder, settings, arguments, &has_warned);
  }
  launch_record(info, encoder, settings);
}

EngineStatistics engine_statistics() {
  const KindStatistics kinds = kind_statistics();
  return {launches.load(), synchronous.load(), kinds.inferred, kinds.rehearsed,
          kinds.cache};
}

}  // namespace torch_openreg
