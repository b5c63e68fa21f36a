#include "backend/simulation/host/synchronous.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/pytorch/clean_dispatch.h"
#include "backend/runtime/stream.h"
#include "backend/simulation/common/composites.h"
#include "backend/simulation/common/lazy_flags.h"
#include "backend/simulation/common/reply_format.h"
#include "backend/simulation/common/scalars.h"
#include "backend/simulation/host/executor.h"
#include "backend/simulation/host/metadata.h"
#include "backend/simulation/host/new_output.h"
#include "backend/simulation/record/reader.h"

namespace torch_openreg {

namespace {

using record::Argument;
using record::Tag;

record::OutputShape shape_of(const record::TensorView& tensor) {
  return output_shape(static_cast<c10::ScalarType>(tensor.dtype),
                      at::IntArrayRef(tensor.sizes),
                      at::IntArrayRef(tensor.strides), tensor.flags);
}

// The text, for ever: who gives a warning keeps no copy of its file's name.
const char* kept_text(std::string_view text) {
  static auto& mutex = *new std::mutex;
  static auto& kept = *new std::set<std::string, std::less<>>;
  const std::lock_guard lock(mutex);
  return kept.emplace(text).first->c_str();
}

// Reads a reply, makes the tensors that it describes, and writes the record
// that fetches their contents. Not thread-safe.
class ReplyReader {
 public:
  ReplyReader(std::span<const record::Word> words, c10::DeviceIndex device)
      : reader_(words), device_(device), writer_(/*values_apart=*/false) {
    TORCH_INTERNAL_ASSERT(reader_.open(), "the device's reply is malformed");
    writer_.add_int(static_cast<int64_t>(token()));
  }

  // What the executor keeps the results under; 0 if there is nothing to fetch.
  uint64_t token() const { return reader_.header().settings; }

  void read_results(const OperatorInfo& info) {
    if (has_failed()) {
      failure_ = next(Tag::kString).text;
      ++read_;
      return;
    }
    for (const int argument : info.aliased) {
      if (argument >= 0) continue;
      results_.values.push_back(read_result(next()));
      ++read_;
    }
  }

  // An argument's number and what it is like now, or a warning; so all that is
  // left.
  void read_written(std::span<const c10::IValue> arguments) {
    while (read_ < reader_.header().argument_count) {
      const int64_t number = next(Tag::kInt).integer;
      if (number < 0) {
        read_warning(number);
        continue;
      }
      const auto index = static_cast<size_t>(number);
      TORCH_INTERNAL_ASSERT(index < arguments.size());
      read_written(static_cast<uint32_t>(index), arguments);
      read_ += 2;
    }
    TORCH_INTERNAL_ASSERT(reader_.at_end(), "the device's reply is too long");
  }

  // The last thing to do: a warning may be an error to Python. Throws what the
  // operator has thrown.
  void give_warnings() const {
    const std::exception_ptr failure =
        has_failed() ? report_failure() : nullptr;
    for (const c10::Warning& warning : warnings_) c10::warn(warning);
    if (failure != nullptr) std::rethrow_exception(failure);
  }

  WaitedResults take_results() {
    if (!has_composites_) {
      results_.metadata =
          std::make_shared<record::CallMetadata>(std::move(metadata_));
    }
    results_.has_warned = !warnings_.empty();
    return std::move(results_);
  }

  const record::Writer& writer() const { return writer_; }

  bool has_failed() const {
    return (reader_.header().flags & record::kFailed) != 0;
  }

 private:
  // The operator's kernel has replied, and so has not failed for the driver.
  // This one does, with the same words: who fails may break the device. Returns
  // what the operator has thrown.
  std::exception_ptr report_failure() const {
    try {
      launch_and_wait(ExecutorKernel::kReportFailure, failure_.data(),
                      failure_.size(), getCurrentOpenRegStream(device_),
                      Length::kCheap, nullptr, 0);
    } catch (...) {
      return std::current_exception();
    }
    TORCH_INTERNAL_ASSERT(false, "a failure was not reported: ", failure_);
  }

  Argument next() {
    Argument argument;
    TORCH_INTERNAL_ASSERT(reader_.next_argument(&argument));
    return argument;
  }

  Argument next(Tag tag) {
    const Argument argument = next();
    TORCH_INTERNAL_ASSERT(argument.tag == tag);
    return argument;
  }

  void read_warning(int64_t kind) {
    const std::string text(next(Tag::kString).text);
    const char* const file = kept_text(next(Tag::kString).text);
    const auto line = static_cast<uint32_t>(next(Tag::kInt).integer);
    c10::Warning::warning_variant_t type = c10::UserWarning();
    if (kind == kDeprecationWarning) type = c10::DeprecationWarning();
    warnings_.emplace_back(type, c10::SourceLocation{"kernel", file, line},
                           text, /*verbatim=*/false);
    read_ += 4;
  }

  void add_output(const record::OutputShape& shape, const at::Tensor& tensor) {
    writer_.add_output(shape.tensor,
                       reinterpret_cast<uint64_t>(tensor.mutable_data_ptr()),
                       shape.bytes);
  }

  at::Tensor make_plain(const Argument& argument) {
    TORCH_INTERNAL_ASSERT(argument.tag == Tag::kTensor);
    const record::OutputShape shape = shape_of(argument.tensor);
    at::Tensor tensor = make_output(shape, device_);
    add_output(shape, tensor);
    metadata_.outputs.push_back(shape);
    return tensor;
  }

  at::Tensor read_tensor(const Argument& argument) {
    if (argument.tag == Tag::kUndefined) {
      metadata_.outputs.emplace_back();
      return {};
    }
    if (argument.tag != Tag::kComposite) return make_plain(argument);
    has_composites_ = true;
    const auto parts =
        read_parts(argument.composite, reader_,
                   [this](const Argument& part) { return make_plain(part); });
    TORCH_INTERNAL_ASSERT(parts.has_value());
    const CleanDispatch clean;
    return put_together(*parts);
  }

  c10::IValue read_result(const Argument& argument) {
    if (argument.tag == Tag::kTensorList) {
      metadata_.returns.push_back(static_cast<int32_t>(argument.number));
      c10::List<at::Tensor> list;
      for (uint32_t n = argument.number; n > 0; --n) {
        list.push_back(read_tensor(next()));
      }
      return list;
    }
    if (auto scalar = read_scalar(argument)) return *std::move(scalar);
    metadata_.returns.push_back(record::CallMetadata::kSingle);
    return read_tensor(argument);
  }

  void read_written(uint32_t index, std::span<const c10::IValue> arguments) {
    const at::Tensor& tensor = arguments[index].toTensor();
    const Argument argument = next();
    if (argument.tag == Tag::kComposite) {
      return assign(tensor, read_tensor(argument));
    }
    TORCH_INTERNAL_ASSERT(argument.tag == Tag::kTensor);
    record::CallMetadata resized;
    resized.resizes.push_back(
        {index,
         {argument.tensor.sizes.begin(), argument.tensor.sizes.end()},
         {argument.tensor.strides.begin(), argument.tensor.strides.end()},
         argument.tensor.flags});
    resize_outputs(resized, arguments);
    add_output(shape_of(argument.tensor), tensor);
    metadata_.resizes.push_back(std::move(resized.resizes.front()));
  }

  record::Reader reader_;
  const c10::DeviceIndex device_;
  record::Writer writer_;  // of the record that fetches
  WaitedResults results_;
  record::CallMetadata metadata_;
  bool has_composites_ = false;
  uint32_t read_ = 0;    // arguments of the reply
  std::string failure_;  // of an operator that has failed
  std::vector<c10::Warning> warnings_;
};

bool any_requires_grad(std::span<const c10::IValue> arguments) {
  return std::ranges::any_of(arguments, [](const c10::IValue& argument) {
    return argument.isTensor() && argument.toTensor().defined() &&
           argument.toTensor().requires_grad();
  });
}

uint16_t flags_of(const Encoder& encoder,
                  std::span<const c10::IValue> arguments) {
  const bool needs_gradient =
      encoder.has_composites() && any_requires_grad(arguments);
  return record::kKeepOutputs |
         (needs_gradient ? uint16_t{record::kNeedsGradient} : uint16_t{0});
}

// Brings the outputs that the executor keeps to the device's memory.
void fetch(const OperatorInfo& info, const ReplyReader& reply,
           uint64_t settings, c10::DeviceIndex device) {
  record::Words words;
  reply.writer().finish(info.name, info.id, settings, 0, 1, &words);
  launch(ExecutorKernel::kFetchOutputs, words.data(),
         words.size() * sizeof(record::Word), getCurrentOpenRegStream(device),
         Length::kCheap);
}

// Drops results that can't be fetched because there is no memory for them.
void drop(uint64_t token, c10::DeviceIndex device) {
  if (token == 0) return;
  launch(ExecutorKernel::kDropOutputs, &token, sizeof token,
         getCurrentOpenRegStream(device), Length::kCheap);
}

}  // namespace

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
    set_lazy_flags(tensor, resize.flags);
  }
}

namespace {

// The device's reply.
class ReceivedReply {
 public:
  // Runs the record and waits.
  ReceivedReply(const record::Words& words, const OpenRegStream& stream,
                Length length) {
    const size_t bytes =
        launch_and_wait(ExecutorKernel::kRunOperator, words.data(),
                        words.size() * sizeof(record::Word), stream, length,
                        short_.data(), sizeof short_);
    words_ = std::span(short_).first(bytes / sizeof(record::Word));
    fetch_if_long(stream);
  }
  ReceivedReply(const ReceivedReply&) = delete;
  ReceivedReply& operator=(const ReceivedReply&) = delete;

  std::span<const record::Word> words() const { return words_; }

 private:
  void fetch_if_long(const OpenRegStream& stream) {
    record::Reader reader(words_);
    record::Argument bytes;
    if (!reader.open() || (reader.header().flags & record::kLong) == 0) return;
    TORCH_INTERNAL_ASSERT(reader.next_argument(&bytes) &&
                          bytes.tag == Tag::kInt);
    const uint64_t token = reader.header().settings;
    long_.resize(static_cast<size_t>(bytes.integer) / sizeof(record::Word));
    launch_and_wait(ExecutorKernel::kFetchReply, &token, sizeof token, stream,
                    Length::kCheap, long_.data(),
                    long_.size() * sizeof(record::Word));
    words_ = long_;
  }

  std::array<record::Word, kShortReplyBytes / sizeof(record::Word)> short_;
  std::vector<record::Word> long_;
  std::span<const record::Word> words_;
};

}  // namespace

WaitedResults run_and_wait(const OperatorInfo& info, Encoder& encoder,
                           std::span<const c10::IValue> arguments,
                           uint64_t settings, bool is_checked) {
  record::Words words;
  const uint16_t unchecked = is_checked ? 0 : record::kUnchecked;
  encoder.writer().finish(info.name, info.id, settings,
                          flags_of(encoder, arguments) | unchecked,
                          static_cast<uint32_t>(info.written.size()), &words);
  const ReceivedReply received(words, getCurrentOpenRegStream(encoder.device()),
                               encoder.length());
  ReplyReader reply(received.words(), encoder.device());
  if (!is_checked && reply.has_failed()) {
    WaitedResults failed;
    failed.has_failed = true;
    return failed;
  }
  try {
    reply.read_results(info);
    reply.read_written(arguments);
  } catch (...) {
    drop(reply.token(), encoder.device());
    throw;
  }
  if (reply.token() != 0) fetch(info, reply, settings, encoder.device());
  reply.give_warnings();
  return reply.take_results();
}

}  // namespace torch_openreg
