#include "backend/simulation/device/reply.h"

#include <ATen/MemoryOverlap.h>

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "backend/simulation/common/lazy_flags.h"
#include "backend/simulation/common/reply_format.h"
#include "backend/simulation/common/scalars.h"
#include "backend/simulation/common/signatures.h"
#include "backend/simulation/record/writer.h"

namespace torch_openreg::device {

namespace {

// What waits for the host to fetch it. Thread-safe.
template <typename Value>
class Kept {
 public:
  uint64_t keep(Value value) {
    const std::lock_guard lock(mutex_);
    by_token_.emplace(++last_, std::move(value));
    return last_;
  }
  Value take(uint64_t token) {
    const std::lock_guard lock(mutex_);
    const auto found = by_token_.find(token);
    if (found == by_token_.end()) {
      throw std::invalid_argument("nothing is kept under this token");
    }
    Value value = std::move(found->second);
    by_token_.erase(found);
    return value;
  }

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;                             // guarded by mutex_
  std::unordered_map<uint64_t, Value> by_token_;  // guarded by mutex_
};

Kept<TensorVector>& kept_outputs() {
  static auto& instance = *new Kept<TensorVector>;
  return instance;
}

using LongReply = std::vector<record::Word>;

Kept<LongReply>& kept_replies() {
  static auto& instance = *new Kept<LongReply>;
  return instance;
}

record::TensorShape shape_of(const at::Tensor& tensor) {
  return {.dtype = static_cast<uint8_t>(tensor.scalar_type()),
          .flags = lazy_flags(tensor),
          .offset = 0,
          .sizes = tensor.sizes(),
          .strides = tensor.strides()};
}

// Describes results as arguments of a record, and collects the plain tensors
// that they are made of, in the order in which the host meets them.
class Description {
 public:
  explicit Description(record::Writer& writer) : writer_(writer) {
    writer_.add_storage(0, 0);
  }

  void add(const c10::IValue& value) {
    ++count_;
    if (value.isTensor()) {
      add_tensor(value.toTensor());
    } else if (value.isTensorList()) {
      const auto list = value.toTensorVector();
      writer_.begin_list(record::Tag::kTensorList, list.size());
      for (const at::Tensor& tensor : list) add_tensor(tensor);
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(write_scalar(value, writer_),
                                  "a result of type ", value.tagKind());
    }
  }

  void add(const std::string& text) {
    writer_.add_string(text);
    ++count_;
  }

  void add(const c10::Warning& warning) {
    const bool is_deprecation =
        std::holds_alternative<c10::DeprecationWarning>(warning.type());
    const c10::SourceLocation& where = warning.source_location();
    writer_.add_int(is_deprecation ? kDeprecationWarning : kUserWarning);
    writer_.add_string(warning.msg());
    writer_.add_string(where.file == nullptr ? "" : where.file);
    writer_.add_int(where.line);
    count_ += 4;
  }

  uint32_t count() const { return count_; }
  TensorVector take_tensors() { return std::move(tensors_); }

 private:
  void add_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return writer_.add_undefined();
    if (is_plain(tensor)) return add_plain(tensor);
    const auto parts = take_apart(tensor);
    TORCH_CHECK_NOT_IMPLEMENTED(parts.has_value(), "a result of layout ",
                                tensor.layout());
    write_parts(*parts, writer_, [this](const at::Tensor& part) {
      // Elements that share a place could not be copied to another one.
      add_plain(at::has_internal_overlap(part) == at::MemOverlap::Yes
                    ? part.contiguous()
                    : part);
      return true;
    });
  }

  void add_plain(const at::Tensor& tensor) {
    writer_.add_tensor(shape_of(tensor), 0);
    tensors_.push_back(tensor);
  }

  record::Writer& writer_;
  TensorVector tensors_;
  uint32_t count_ = 0;
};

orError_t send(orKernelContext* ctx, const record::Reader& reader,
               const record::Writer& writer, uint64_t token, uint16_t flags,
               uint32_t count) {
  record::Words words;
  writer.finish(reader.name(), reader.header().operator_id, token, flags, count,
                &words);
  const size_t bytes = words.size() * sizeof(record::Word);
  if (bytes <= kShortReplyBytes) return orKernelReply(ctx, words.data(), bytes);
  record::Writer announcement(/*values_apart=*/false);
  announcement.add_int(static_cast<int64_t>(bytes));
  record::Words announced;
  const auto view = words.view();
  announcement.finish(reader.name(), reader.header().operator_id,
                      kept_replies().keep({view.begin(), view.end()}),
                      record::kLong, 1, &announced);
  return orKernelReply(ctx, announced.data(),
                       announced.size() * sizeof(record::Word));
}

}  // namespace

WrittenArguments::WrittenArguments(const c10::FunctionSchema& schema,
                                   const torch::jit::Stack& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_written(schema.arguments()[i])) continue;
    if (!arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    if (!tensor.defined()) continue;
    Before before{
        {static_cast<int64_t>(i), tensor}, {}, {}, lazy_flags(tensor), {}};
    if (is_plain(tensor)) {
      before.sizes = tensor.sizes().vec();
      before.strides = tensor.strides().vec();
    } else {
      before.parts = take_apart(tensor);
    }
    before_.push_back(std::move(before));
  }
}

std::vector<Resized> WrittenArguments::resized() const {
  std::vector<Resized> result;
  for (const Before& before : before_) {
    const at::Tensor& tensor = before.now.tensor;
    const bool is_same =
        before.parts.has_value()
            ? are_same(*before.parts, *take_apart(tensor))
            : tensor.sizes() == at::IntArrayRef(before.sizes) &&
                  tensor.strides() == at::IntArrayRef(before.strides) &&
                  lazy_flags(tensor) == before.flags;
    if (!is_same) result.push_back(before.now);
  }
  return result;
}

orError_t reply_with_results(orKernelContext* ctx, const record::Reader& reader,
                             std::span<const c10::IValue> results,
                             const std::vector<Resized>& resized,
                             const std::vector<c10::Warning>& warnings) {
  record::Writer writer(/*values_apart=*/false);
  Description description(writer);
  for (const c10::IValue& result : results) description.add(result);
  for (const Resized& argument : resized) {
    description.add(argument.argument);
    description.add(argument.tensor);
  }
  for (const c10::Warning& warning : warnings) description.add(warning);
  TensorVector tensors = description.take_tensors();
  const uint64_t token =
      tensors.empty() ? 0 : kept_outputs().keep(std::move(tensors));
  return send(ctx, reader, writer, token, 0, description.count());
}

orError_t reply_with_failure(orKernelContext* ctx, const record::Reader& reader,
                             const std::string& failure,
                             const std::vector<c10::Warning>& warnings) {
  record::Writer writer(/*values_apart=*/false);
  Description description(writer);
  description.add(failure);
  for (const c10::Warning& warning : warnings) description.add(warning);
  return send(ctx, reader, writer, /*token=*/0, record::kFailed,
              description.count());
}

TensorVector take_kept(uint64_t token) { return kept_outputs().take(token); }

orError_t fetch_reply(orKernelContext* ctx) {
  uint64_t token = 0;
  if (ctx->size != sizeof token) {
    throw std::invalid_argument("a malformed message: token");
  }
  std::memcpy(&token, ctx->args, sizeof token);
  const LongReply reply = kept_replies().take(token);
  return orKernelReply(ctx, reply.data(), reply.size() * sizeof reply[0]);
}

}  // namespace torch_openreg::device
