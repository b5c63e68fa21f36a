#include "backend/aten/engine.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/aten/encode.h"
#include "backend/aten/fallback.h"
#include "backend/aten/metadata.h"
#include "backend/aten/new_tensor.h"
#include "backend/aten/settings.h"
#include "backend/aten/synchronous.h"
#include "backend/executor/warnings.h"
#include "backend/runtime/executor.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/sync_debug.h"

namespace torch_openreg {

namespace {

// Entries; about a kilobyte each.
constexpr size_t kCacheCapacity = 16384;

// What takes less time than waking a thread, of heavy operators.
constexpr size_t kCheapHeavyBytes = size_t{8} << 10;

record::MetadataCache& cache() {
  static auto& instance = *new record::MetadataCache(kCacheCapacity);
  return instance;
}

std::atomic<uint64_t> launches{0};
std::atomic<uint64_t> synchronous{0};

using Outputs = c10::SmallVector<at::Tensor, 4>;
using Metadata = std::shared_ptr<const record::CallMetadata>;

std::span<c10::IValue> arguments_of(const OperatorInfo& info,
                                    torch::jit::Stack& stack) {
  const size_t count = info.written.size();
  return {stack.data() + stack.size() - count, count};
}

// Offsets matter where tensors share a storage: they may overlap.
uint64_t context_of(record::Writer& writer, uint64_t settings) {
  if (C10_LIKELY(!writer.has_shared_storage())) return settings;
  return record::MetadataCache::hash_of(0, settings, writer.offsets());
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
  const size_t limit = info.is_heavy ? kCheapHeavyBytes : kCheapBytes;
  launch_here(Kernel::kRunOperator, words.data(),
              words.size() * sizeof(record::Word),
              getCurrentOpenRegStream(encoder.device()),
              encoder.largest_tensor() <= limit);
  launches.fetch_add(1, std::memory_order_relaxed);
}

void run_asynchronously(const OperatorInfo& info, Encoder& encoder,
                        const record::CallMetadata& metadata, uint64_t settings,
                        torch::jit::Stack* stack, uint16_t flags = 0) {
  Outputs outputs = make_outputs(metadata, encoder.device(), encoder.writer());
  for (const record::OutputShape& shape : metadata.outputs) {
    encoder.note_tensor(shape.bytes);
  }
  launch_record(info, encoder, settings, flags);
  give_results(info, metadata, outputs, stack);
}

// Calls of the same kind, but for sizes, are known to be good.
uint64_t signature_id(const OperatorInfo& info) { return ~info.id; }

bool is_checked(const OperatorInfo& info, Encoder& encoder, uint64_t settings) {
  record::Words signature;
  encoder.writer().write_signature(&signature);
  return cache().find(signature_id(info), settings, signature.view()) !=
         nullptr;
}

// Whether a good call says that others of its kind are: kernels look at the
// dtypes of empty tensors no more than they need.
bool is_telling(Encoder& encoder, const record::CallMetadata& metadata) {
  return encoder.largest_tensor() > 0 &&
         std::ranges::none_of(metadata.outputs, [](const auto& shape) {
           return shape.bytes == 0;
         });
}

// The call was good; what it gives is worth keeping unless it has resized.
void remember(const OperatorInfo& info, Encoder& encoder, uint64_t settings,
              const Metadata& metadata) {
  static const auto& good =
      *new Metadata(std::make_shared<record::CallMetadata>());
  if (is_telling(encoder, *metadata)) {
    record::Words signature;
    encoder.writer().write_signature(&signature);
    cache().insert(signature_id(info), settings, signature.view(), good);
  }
  if (!metadata->resizes.empty()) return;
  cache().insert(info.id, context_of(encoder.writer(), settings),
                 encoder.writer().key(), metadata);
}

// Runs the operator and waits; see run_and_wait().
void run_synchronously(const OperatorInfo& info, Encoder& encoder,
                       uint64_t settings, bool is_cacheable,
                       torch::jit::Stack* stack) {
  const std::span<c10::IValue> arguments = arguments_of(info, *stack);
  WaitedResults waited = run_and_wait(info, encoder, arguments, settings);
  synchronous.fetch_add(1, std::memory_order_relaxed);
  if (waited.metadata == nullptr) {
    info.gives_composites.store(true, std::memory_order_relaxed);
  } else if (is_cacheable && !waited.has_warned) {
    remember(info, encoder, settings, waited.metadata);
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

// The outputs' metadata, if the same kind of call was made before.
Metadata find_metadata(const OperatorInfo& info, Encoder& encoder,
                       uint64_t settings) {
  return cache().find(info.id, context_of(encoder.writer(), settings),
                      encoder.writer().key());
}

// The same of a call of a new kind; null if the operator shall be run for it.
// See Note [How an operator runs]. A call that warns is never known: the next
// one is rehearsed again, and warns again, if the CPU's would.
Metadata learn_metadata(const OperatorInfo& info, Encoder& encoder,
                        uint64_t settings,
                        std::span<const c10::IValue> arguments,
                        bool* has_warned) {
  Metadata metadata;
  const Metadata inferred = infer_metadata(info, arguments, encoder.device());
  if (inferred != nullptr && is_checked(info, encoder, settings) &&
      !has_idle_strides(info, *inferred, arguments) &&
      !writes_overlapping(info, arguments) &&
      !(encoder.writer().has_shared_storage() && info.writes)) {
    metadata = inferred;
  } else {
    metadata = rehearse(info, arguments, has_warned);
    if (inferred != nullptr && metadata != nullptr && *inferred != *metadata) {
      info.is_meta_usable.store(false, std::memory_order_relaxed);
    }
  }
  if (metadata != nullptr && !*has_warned) {
    remember(info, encoder, settings, metadata);
  }
  return metadata;
}

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
  const Metadata metadata =
      learn_metadata(info, encoder, settings, arguments, &has_warned);
  if (metadata == nullptr) {
    return run_synchronously(info, encoder, settings, /*is_cacheable=*/true,
                             stack);
  }
  if (C10_UNLIKELY(!metadata->resizes.empty())) {
    if (encoder.writer().has_shared_storage() ||
        !can_resize_first(info, *metadata)) {
      return run_synchronously(info, encoder, settings, /*is_cacheable=*/false,
                               stack);
    }
    resize_outputs(*metadata, arguments);
    const NoWarnings no_warnings;  // they were given
    return run_operator(info, stack);
  }
  run_asynchronously(info, encoder, *metadata, settings, stack,
                     has_warned ? record::kQuiet : 0);
}

}  // namespace

void run_operator(const OperatorInfo& info, torch::jit::Stack* stack) {
  const std::span<c10::IValue> arguments = arguments_of(info, *stack);
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
  run_asynchronously(info, encoder, *metadata, settings, stack);
}

at::Tensor run_encoded(const OperatorInfo& info, Encoder& encoder,
                       c10::function_ref<void(torch::jit::Stack&)> box) {
  const DeviceScope scope(encoder.device());
  const uint64_t settings = current_settings();
  const Metadata metadata = find_metadata(info, encoder, settings);
  if (C10_UNLIKELY(metadata == nullptr)) {
    torch::jit::Stack stack;
    box(stack);
    if (info.is_on(encoder.device())) {
      run_new_kind(info, encoder, &stack);
    } else {
      cpu_fallback(info.op, &stack, FallbackReason::kNotOnDevice);
    }
    return std::move(stack.back()).toTensor();
  }
  const record::OutputShape& shape = metadata->outputs.front();
  at::Tensor output = make_output(shape, encoder.device());
  add_output(shape, output, encoder.writer());
  encoder.note_tensor(shape.bytes);
  launch_record(info, encoder, settings);
  return output;
}

void launch_prepared(const OperatorInfo& info,
                     std::span<c10::IValue> arguments) {
  Encoder encoder(info);
  TORCH_INTERNAL_ASSERT(encoder.encode(arguments));
  const DeviceScope scope(encoder.device());
  const uint64_t settings = current_settings();
  if (!is_checked(info, encoder, settings)) {
    bool has_warned = false;
    const Metadata metadata = rehearse(info, arguments, &has_warned);
    if (metadata != nullptr) remember(info, encoder, settings, metadata);
  }
  launch_record(info, encoder, settings);
}

EngineStatistics engine_statistics() {
  return {launches.load(), synchronous.load(), cache().statistics()};
}

}  // namespace torch_openreg
