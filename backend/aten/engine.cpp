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
#include "backend/aten/settings.h"
#include "backend/executor/scalars.h"
#include "backend/record/reader.h"
#include "backend/runtime/device_allocator.h"
#include "backend/runtime/executor.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/sync_debug.h"

namespace torch_openreg {

namespace {

// Entries; about a kilobyte each.
constexpr size_t kCacheCapacity = 16384;

// What takes less time than waking a thread, of heavy operators.
constexpr size_t kCheapHeavyBytes = size_t{8} << 10;

// Room for the description of results; more makes the call fail.
constexpr size_t kReplyBytes = size_t{1} << 20;

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

// A new tensor as `shape` says.
at::Tensor make_output(const record::OutputShape& shape,
                       c10::DeviceIndex device) {
  const record::FirstWord first = record::FirstWord::unpack(shape.tensor[0]);
  const size_t dimensions = first.dimensions;
  const auto* const numbers =
      reinterpret_cast<const int64_t*>(shape.tensor.data() + 1);
  OpenRegDeviceAllocator& allocator = OpenRegDeviceAllocator::get();
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), shape.bytes,
          allocator.allocate_on(device, shape.bytes), &allocator,
          /*resizable=*/true)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(first.dtype)));
  if (dimensions != 1 || numbers[0] != 0 || numbers[1] != 1) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
        {numbers, dimensions}, {numbers + dimensions, dimensions});
  }
  if (C10_UNLIKELY(first.flags != 0)) {
    if ((first.flags & record::kConjugate) != 0) tensor._set_conj(true);
    if ((first.flags & record::kNegative) != 0) tensor._set_neg(true);
  }
  return tensor;
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
    writer.add_output(
        shape.tensor,
        reinterpret_cast<uint64_t>(outputs.back().storage().data()),
        shape.bytes);
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
                   uint64_t settings) {
  record::Words words;
  encoder.writer().finish(info.name, info.id, settings, 0,
                          static_cast<uint32_t>(info.written.size()), &words);
  const size_t limit = info.is_heavy ? kCheapHeavyBytes : kCheapBytes;
  launch_here(Kernel::kRunOperator, words.data(),
              words.size() * sizeof(record::Word),
              getCurrentOpenRegStream(encoder.device()),
              encoder.largest_tensor() <= limit);
}

void run_asynchronously(const OperatorInfo& info, Encoder& encoder,
                        const record::CallMetadata& metadata, uint64_t settings,
                        torch::jit::Stack* stack) {
  Outputs outputs = make_outputs(metadata, encoder.device(), encoder.writer());
  for (const record::OutputShape& shape : metadata.outputs) {
    encoder.note_tensor(shape.bytes);
  }
  launch_record(info, encoder, settings);
  launches.fetch_add(1, std::memory_order_relaxed);
  give_results(info, metadata, outputs, stack);
}

void resize_outputs(const record::CallMetadata& metadata,
                    std::span<const c10::IValue> arguments) {
  for (const record::CallMetadata::Resize& resize : metadata.resizes) {
    const at::Tensor& tensor = arguments[resize.argument].toTensor();
    // The kernel may have left gaps: first the room, then the shape.
    const record::OutputShape shape =
        output_shape(tensor.scalar_type(), resize.sizes, resize.strides);
    tensor.resize_({static_cast<int64_t>(shape.bytes / tensor.itemsize())});
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(resize.sizes,
                                                        resize.strides);
  }
}

// The results of a synchronous run, as its reply tells them.
struct Reply {
  uint64_t token = 0;
  record::CallMetadata metadata;    // also of the arguments it has resized
  std::vector<c10::IValue> values;  // of returns that are no tensors
};

record::OutputShape shape_of(const record::Argument& argument) {
  if (argument.tag == record::Tag::kUndefined) return {};
  TORCH_INTERNAL_ASSERT(argument.tag == record::Tag::kTensor);
  return output_shape(static_cast<c10::ScalarType>(argument.tensor.dtype),
                      at::IntArrayRef(argument.tensor.sizes),
                      at::IntArrayRef(argument.tensor.strides),
                      argument.tensor.flags);
}

void read_result(record::Reader& reader, const record::Argument& argument,
                 Reply& reply) {
  if (argument.tag == record::Tag::kTensorList) {
    reply.metadata.returns.push_back(static_cast<int32_t>(argument.number));
    for (uint32_t n = argument.number; n > 0; --n) {
      record::Argument element;
      TORCH_INTERNAL_ASSERT(reader.next_argument(&element));
      reply.metadata.outputs.push_back(shape_of(element));
    }
  } else if (argument.tag == record::Tag::kTensor ||
             argument.tag == record::Tag::kUndefined) {
    reply.metadata.returns.push_back(record::CallMetadata::kSingle);
    reply.metadata.outputs.push_back(shape_of(argument));
  } else {
    reply.values.push_back(read_scalar(argument).value_or(c10::IValue()));
  }
}

Reply read_reply(const OperatorInfo& info, record::Reader& reader) {
  TORCH_INTERNAL_ASSERT(reader.open(), "the device's reply is malformed");
  Reply reply;
  reply.token = reader.header().settings;
  const auto results = static_cast<uint32_t>(std::ranges::count_if(
      info.aliased, [](int argument) { return argument < 0; }));
  record::Argument argument;
  for (uint32_t i = 0; i < results; ++i) {
    TORCH_INTERNAL_ASSERT(reader.next_argument(&argument));
    read_result(reader, argument, reply);
  }
  for (uint32_t i = results; i < reader.header().argument_count; i += 2) {
    record::Argument tensor;
    TORCH_INTERNAL_ASSERT(
        reader.next_argument(&argument) && argument.tag == record::Tag::kInt &&
        static_cast<size_t>(argument.integer) < info.written.size());
    TORCH_INTERNAL_ASSERT(reader.next_argument(&tensor) &&
                          tensor.tag == record::Tag::kTensor);
    reply.metadata.resizes.push_back(
        {static_cast<uint32_t>(argument.integer),
         {tensor.tensor.sizes.begin(), tensor.tensor.sizes.end()},
         {tensor.tensor.strides.begin(), tensor.tensor.strides.end()}});
  }
  TORCH_INTERNAL_ASSERT(reader.at_end(), "the device's reply is too long");
  return reply;
}

// Brings the outputs that the executor keeps to the device's memory.
Outputs fetch(const Reply& reply, const OperatorInfo& info,
              std::span<const c10::IValue> arguments, c10::DeviceIndex device,
              uint64_t settings) {
  record::Writer writer(/*values_apart=*/false);
  writer.add_int(static_cast<int64_t>(reply.token));
  Outputs outputs = make_outputs(reply.metadata, device, writer);
  resize_outputs(reply.metadata, arguments);
  for (const record::CallMetadata::Resize& resize : reply.metadata.resizes) {
    const at::Tensor& tensor = arguments[resize.argument].toTensor();
    const record::OutputShape shape =
        output_shape(tensor.scalar_type(), tensor.sizes(), tensor.strides());
    writer.add_output(shape.tensor,
                      reinterpret_cast<uint64_t>(tensor.mutable_data_ptr()),
                      shape.bytes);
  }
  if (reply.token == 0) return outputs;
  record::Words words;
  writer.finish(info.name, info.id, settings, 0, 1, &words);
  launch(Kernel::kFetchOutputs, words.data(),
         words.size() * sizeof(record::Word), getCurrentOpenRegStream(device),
         /*cheap=*/true);
  return outputs;
}

// Calls of the same kind, but for sizes, are known to be good.
uint64_t signature_id(const OperatorInfo& info) { return ~info.id; }

bool is_checked(const OperatorInfo& info, Encoder& encoder, uint64_t settings) {
  record::Words signature;
  encoder.writer().write_signature(&signature);
  return cache().find(signature_id(info), settings, signature.view()) !=
         nullptr;
}

// The call was good; what it gives is worth keeping unless it has resized.
void remember(const OperatorInfo& info, Encoder& encoder, uint64_t settings,
              const Metadata& metadata) {
  static const auto& good =
      *new Metadata(std::make_shared<record::CallMetadata>());
  record::Words signature;
  encoder.writer().write_signature(&signature);
  cache().insert(signature_id(info), settings, signature.view(), good);
  if (!metadata->resizes.empty()) return;
  cache().insert(info.id, context_of(encoder.writer(), settings),
                 encoder.writer().key(), metadata);
}

void run_synchronously(const OperatorInfo& info, Encoder& encoder,
                       uint64_t settings, bool is_cacheable,
                       torch::jit::Stack* stack) {
  record::Words words;
  encoder.writer().finish(info.name, info.id, settings, record::kKeepOutputs,
                          static_cast<uint32_t>(info.written.size()), &words);
  const auto room = std::make_unique_for_overwrite<record::Word[]>(
      kReplyBytes / sizeof(record::Word));
  const size_t bytes = launch_and_wait(
      Kernel::kRunOperator, words.data(), words.size() * sizeof(record::Word),
      getCurrentOpenRegStream(encoder.device()), room.get(), kReplyBytes);
  synchronous.fetch_add(1, std::memory_order_relaxed);
  record::Reader reader({room.get(), bytes / sizeof(record::Word)});
  Reply reply = read_reply(info, reader);
  if (!reply.values.empty()) {
    torch::jit::drop(*stack, info.written.size());
    for (c10::IValue& value : reply.values) stack->push_back(std::move(value));
    return;
  }
  Outputs outputs = fetch(reply, info, arguments_of(info, *stack),
                          encoder.device(), settings);
  if (is_cacheable) {
    remember(info, encoder, settings,
             std::make_shared<record::CallMetadata>(reply.metadata));
  }
  give_results(info, reply.metadata, outputs, stack);
}

// The outputs' metadata; null if the operator shall be run for it. See Note
// [How an operator runs].
Metadata find_metadata(const OperatorInfo& info, Encoder& encoder,
                       uint64_t settings,
                       std::span<const c10::IValue> arguments) {
  Metadata metadata = cache().find(
      info.id, context_of(encoder.writer(), settings), encoder.writer().key());
  if (C10_LIKELY(metadata != nullptr)) return metadata;
  const Metadata inferred = infer_metadata(info, arguments, encoder.device());
  if (inferred != nullptr && is_checked(info, encoder, settings) &&
      !leaves_empty_out(info, *inferred, arguments)) {
    metadata = inferred;
  } else {
    metadata = rehearse(info, arguments);
    if (inferred != nullptr && metadata != nullptr && *inferred != *metadata) {
      info.is_meta_usable.store(false, std::memory_order_relaxed);
    }
  }
  if (metadata != nullptr) remember(info, encoder, settings, metadata);
  return metadata;
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
  const uint64_t settings = current_settings();
  if (info.needs_data(arguments)) {
    note_synchronization();
    return run_synchronously(info, encoder, settings, /*is_cacheable=*/false,
                             stack);
  }
  const Metadata metadata = find_metadata(info, encoder, settings, arguments);
  if (metadata == nullptr) {
    return run_synchronously(info, encoder, settings, /*is_cacheable=*/true,
                             stack);
  }
  if (C10_UNLIKELY(!metadata->resizes.empty())) {
    if (!can_resize_first(info, *metadata)) {
      return run_synchronously(info, encoder, settings, /*is_cacheable=*/false,
                               stack);
    }
    resize_outputs(*metadata, arguments);
    return run_operator(info, stack);
  }
  run_asynchronously(info, encoder, *metadata, settings, stack);
}

void launch_prepared(const OperatorInfo& info,
                     std::span<c10::IValue> arguments) {
  Encoder encoder(info);
  TORCH_INTERNAL_ASSERT(encoder.encode(arguments));
  const DeviceScope scope(encoder.device());
  const uint64_t settings = current_settings();
  if (!is_checked(info, encoder, settings)) {
    const Metadata metadata = rehearse(info, arguments);
    if (metadata != nullptr) remember(info, encoder, settings, metadata);
  }
  launch_record(info, encoder, settings);
  launches.fetch_add(1, std::memory_order_relaxed);
}

EngineStatistics engine_statistics() {
  return {launches.load(), synchronous.load(), cache().statistics()};
}

}  // namespace torch_openreg
