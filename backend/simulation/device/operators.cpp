#include "backend/simulation/device/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "backend/simulation/common/failure.h"
#include "backend/simulation/common/lazy_flags.h"
#include "backend/simulation/common/signatures.h"
#include "backend/simulation/common/warnings.h"
#include "backend/simulation/device/argument_types.h"
#include "backend/simulation/device/decode.h"
#include "backend/simulation/device/describe.h"
#include "backend/simulation/device/execution_scope.h"
#include "backend/simulation/device/placement.h"
#include "backend/simulation/device/prepared_call.h"
#include "backend/simulation/device/reply.h"
#include "backend/simulation/record/writer.h"

namespace torch_openreg::device {

namespace {

// The facts that the executor needs about an operator, found once. Immutable.
struct Operator {
  explicit Operator(const c10::OperatorHandle& op, uint64_t op_id)
      : handle(op),
        id(op_id),
        argument_count(op.schema().arguments().size()),
        direct(DirectCall::find(op)),
        with_results(ResultCall::find(op)) {
    for (const c10::Argument& returned : op.schema().returns()) {
      returns_new.push_back(!is_written(returned));
    }
  }

  const c10::OperatorHandle handle;
  const uint64_t id;
  const size_t argument_count;
  const std::unique_ptr<const DirectCall> direct;        // or null
  const std::unique_ptr<const ResultCall> with_results;  // or null
  c10::SmallVector<bool, 8> returns_new;  // or an argument, by return
};

// Looks the name up. Operators stay known for ever. Thread-safe.
const Operator& look_up(const record::Reader& reader) {
  static auto& mutex = *new std::mutex;
  static auto& known =
      *new std::unordered_map<uint64_t, std::unique_ptr<Operator>>;
  const uint64_t id = reader.header().operator_id;
  const std::string name(reader.name());
  if (record::id_of(name) != id) {
    throw std::invalid_argument("a malformed launch record: operator");
  }
  const std::lock_guard lock(mutex);
  std::unique_ptr<Operator>& entry = known[id];
  if (entry != nullptr) return *entry;
  const size_t dot = name.find('.');
  const c10::OperatorName full(name.substr(0, dot), dot == std::string::npos
                                                        ? ""
                                                        : name.substr(dot + 1));
  const auto op = c10::Dispatcher::singleton().findSchema(full);
  if (!op.has_value() || is_view(op->schema())) {
    throw std::invalid_argument("the device has no operator " + name);
  }
  entry = std::make_unique<Operator>(*op, id);
  return *entry;
}

const Operator& find_operator(const record::Reader& reader) {
  // A thread's own memory of what it has used lately.
  static thread_local std::array<const Operator*, 256> recent{};
  const uint64_t id = reader.header().operator_id;
  const Operator*& slot = recent[id % recent.size()];
  if (C10_UNLIKELY(slot == nullptr || slot->id != id)) slot = &look_up(reader);
  return *slot;
}

// The new tensors among the results, lists flattened.
TensorVector new_tensors(const Operator& op, const torch::jit::Stack& stack) {
  TensorVector tensors;
  for (size_t i = 0; i < op.returns_new.size(); ++i) {
    if (!op.returns_new[i]) continue;
    const c10::IValue& value = stack[i];
    if (value.isTensor()) {
      if (value.toTensor().defined()) tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        tensors.push_back(tensor);
      }
    }
  }
  return tensors;
}

// Whether `result` is the tensor that the host expects, except for its place.
bool is_expected(const record::TensorView& view, const at::Tensor& result) {
  return result.sizes() == at::IntArrayRef(view.sizes) &&
         static_cast<uint8_t>(result.scalar_type()) == view.dtype;
}

void check_end(const record::Reader& reader) {
  if (!reader.at_end()) {
    throw std::invalid_argument("a malformed launch record: too long");
  }
}

ExpectedVector read_outputs(Decoder& decoder, record::Reader& reader) {
  ExpectedVector outputs;
  const uint32_t count = reader.header().output_count;
  for (uint32_t i = 0; i < count; ++i) {
    record::TensorView view;
    if (!reader.next_output(&view)) {
      throw std::invalid_argument("a malformed launch record: output");
    }
    outputs.push_back({view, decoder.data_of(view)});
  }
  return outputs;
}

// Whether `result` already lies where the host wants it, and as it wants it.
bool is_settled(const Expected& expected, const at::Tensor& result) {
  TORCH_INTERNAL_ASSERT(
      is_expected(expected.view, result), "the host expected an output of ",
      at::IntArrayRef(expected.view.sizes), " and dtype number ",
      int{expected.view.dtype}, ", and the kernel gave ", result.sizes(), " ",
      result.dtype());
  return expected.data == result.const_data_ptr() &&
         result.strides() == at::IntArrayRef(expected.view.strides) &&
         expected.view.flags == lazy_flags(result);
}

// Brings the results to where the host wants them. Those of a call with
// placements may lie in the place of another one, so all that move are taken
// away first. No allocation gets a placement any more. `tensor_of` makes the
// tensor of an output.
void settle_all(
    const ExpectedVector& outputs, TensorVector results, bool were_placed,
    c10::function_ref<at::Tensor(const record::TensorView&)> tensor_of) {
  TORCH_INTERNAL_ASSERT(results.size() == outputs.size(), "the host expected ",
                        outputs.size(), " outputs and the kernel gave ",
                        results.size());
  c10::SmallVector<size_t, 4> moved;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!is_settled(outputs[i], results[i])) moved.push_back(i);
  }
  if (C10_LIKELY(moved.empty())) return;
  if (were_placed && results.size() > 1) {
    for (const size_t i : moved) results[i] = results[i].clone();
  }
  for (const size_t i : moved) {
    tensor_of(outputs[i].view).copy_(results[i]);
  }
}

void call_cpu(const Operator& op, bool has_composites,
              torch::jit::Stack& stack) {
  if (C10_UNLIKELY(has_composites)) return op.handle.callBoxed(&stack);
  op.handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

// Runs the operator, which may keep none of its results, also where it throws.
TensorVector run(const Operator& op, const torch::jit::Stack& arguments,
                 bool has_composites) {
  if (op.with_results != nullptr && !has_composites) {
    return op.with_results->call(arguments);
  }
  torch::jit::Stack stack;
  stack.reserve(op.argument_count + 4);
  stack.insert(stack.end(), arguments.begin(), arguments.end());
  call_cpu(op, has_composites, stack);
  return new_tensors(op, stack);
}

// Runs the operator and puts its new tensors where the record wants them.
orError_t run_to_outputs(
    const Operator& op, const record::Reader& reader,
    const ExpectedVector& outputs, const torch::jit::Stack& arguments,
    bool has_composites,
    c10::function_ref<at::Tensor(const record::TensorView&)> tensor_of) {
  c10::SmallVector<Placement, 4> places;
  for (const Expected& output : outputs) {
    const size_t bytes = reader.storage(output.view.storage).bytes;
    places.push_back({output.data, bytes, bytes == 0});
  }
  PlacementScope scope(places);
  TensorVector results = run(op, arguments, has_composites);
  scope.close();
  settle_all(outputs, std::move(results), /*were_placed=*/true, tensor_of);
  TORCH_INTERNAL_ASSERT(!has_claimed(places), op.handle.operator_name(),
                        " has kept memory of the device");
  return orSuccess;
}

orError_t run_kept(orKernelContext* ctx, record::Reader& reader) {
  const record::Reader start = reader;
  const Operator& op = find_operator(reader);
  Decoder decoder(ctx, reader, /*resizable=*/true);
  torch::jit::Stack stack;
  stack.reserve(op.argument_count + 4);
  decoder.push_arguments(stack);
  check_arguments(op.handle.schema(), stack);
  check_end(reader);
  const WrittenArguments written(op.handle.schema(), stack);
  CollectedWarnings warnings;
  try {
    call_cpu(op, decoder.has_composites(), stack);
  } catch (const c10::Error& error) {
    const bool is_checked = (reader.header().flags & record::kUnchecked) == 0;
    if (warnings.empty() && is_checked) throw;
    return reply_with_failure(ctx, reader,
                              describe_failure(error, describe_call(start)),
                              warnings.take());
  }
  std::vector<c10::IValue> results;
  for (size_t i = 0; i < op.returns_new.size(); ++i) {
    if (op.returns_new[i]) results.push_back(stack[i]);
  }
  return reply_with_results(ctx, reader, results, written.resized(),
                            warnings.take());
}

orError_t run_prepared(orKernelContext* ctx, PreparedCall& call,
                       record::Reader& reader) {
  if (call.is_direct()) {
    const auto release = c10::make_scope_exit([&] { call.release(); });
    call.run_direct();
    return orSuccess;
  }
  const Operator& op = find_operator(reader);
  const auto release = c10::make_scope_exit([&] { call.release(); });
  return run_to_outputs(
      op, reader, call.outputs(), call.arguments(),
      /*has_composites=*/false, [&](const record::TensorView& view) {
        return Decoder(ctx, reader, /*resizable=*/false).tensor(view);
      });
}

}  // namespace

orError_t execute_record(orKernelContext* ctx, record::Reader& reader) {
  const ExecutionScope scope(reader.header().settings);
  const bool keep = (reader.header().flags & record::kKeepOutputs) != 0;
  std::optional<NoWarnings> no_warnings;
  if (C10_UNLIKELY((reader.header().flags & record::kQuiet) != 0)) {
    no_warnings.emplace();
  }
  if (keep) return run_kept(ctx, reader);
  PreparedCall* const prepared = PreparedCall::find(reader);
  if (prepared != nullptr && prepared->bind(ctx, reader)) {
    return run_prepared(ctx, *prepared, reader);
  }
  const Operator& op = find_operator(reader);
  Decoder decoder(ctx, reader, /*resizable=*/false);
  torch::jit::Stack stack;
  stack.reserve(op.argument_count + 4);
  const record::Reader from_start = reader;
  decoder.push_arguments(stack);
  check_arguments(op.handle.schema(), stack);
  const ExpectedVector outputs = read_outputs(decoder, reader);
  check_end(reader);
  PreparedCall::keep(from_start, stack, op.direct.get());
  return run_to_outputs(
      op, reader, outputs, stack, decoder.has_composites(),
      [&](const record::TensorView& view) { return decoder.tensor(view); });
}

orError_t fetch_outputs(orKernelContext* ctx, record::Reader& reader) {
  record::Argument token;
  if (!reader.next_argument(&token) || token.tag != record::Tag::kInt) {
    throw std::invalid_argument("a malformed launch record: token");
  }
  const ExecutionScope scope(reader.header().settings);
  Decoder decoder(ctx, reader, /*resizable=*/false);
  const ExpectedVector outputs = read_outputs(decoder, reader);
  check_end(reader);
  settle_all(outputs, take_kept(static_cast<uint64_t>(token.integer)),
             /*were_placed=*/false, [&](const record::TensorView& view) {
               return decoder.tensor(view);
             });
  return orSuccess;
}

orError_t drop_outputs(orKernelContext* ctx) {
  uint64_t token = 0;
  if (ctx->size != sizeof token) {
    throw std::invalid_argument("a malformed message: token");
  }
  std::memcpy(&token, ctx->args, sizeof token);
  take_kept(token);
  return orSuccess;
}

}  // namespace torch_openreg::device
