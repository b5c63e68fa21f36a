#include "backend/executor/prepared_call.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "backend/executor/decode.h"

namespace torch_openreg {

namespace {

constexpr unsigned kKeptBits = 7;  // of the hash of a call
constexpr size_t kKept = size_t{1} << kKeptBits;
constexpr size_t kMaxWords = 64;  // of arguments

using Kept = std::array<std::unique_ptr<PreparedCall>, kKept>;

Kept& kept() {
  static thread_local Kept calls;
  return calls;
}

bool is_small(const record::Reader& reader) {
  return reader.argument_words().size() <= kMaxWords &&
         reader.header().value_words == 0;
}

// Whether it may be used again: no list, no text, no generator.
bool is_simple(const c10::IValue& argument) {
  return argument.isTensor() || argument.isNone() || argument.isScalar() ||
         argument.isDevice();
}

std::unique_ptr<PreparedCall>& slot_of(const record::Reader& reader) {
  uint64_t hash = reader.header().operator_id;
  for (const record::Word word : reader.argument_words()) {
    hash = std::rotl(hash, 7) + word;
  }
  hash *= 0x9e3779b97f4a7c15;
  return kept()[hash >> (64 - kKeptBits)];
}

// Elements from the first to the last one. What the decoder has accepted does
// not overflow.
uint64_t extent_of(const record::TensorView& view) {
  uint64_t last = 0;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 0) return 0;
    last += static_cast<uint64_t>((view.sizes[i] - 1) * view.strides[i]);
  }
  return last + 1;
}

}  // namespace

PreparedCall* PreparedCall::find(const record::Reader& reader) {
  if (!is_small(reader)) return nullptr;
  PreparedCall* const call = slot_of(reader).get();
  const bool fits = call != nullptr &&
                    call->operator_id_ == reader.header().operator_id &&
                    call->flags_ == reader.header().flags &&
                    std::ranges::equal(call->words_, reader.argument_words());
  return fits ? call : nullptr;
}

void PreparedCall::keep(const record::Reader& reader,
                        const torch::jit::Stack& arguments) {
  if (!is_small(reader) || !std::ranges::all_of(arguments, is_simple)) return;
  auto call = std::make_unique<PreparedCall>();
  if (call->prepare(reader, arguments)) slot_of(reader) = std::move(call);
}

bool PreparedCall::prepare(const record::Reader& reader,
                           const torch::jit::Stack& arguments) {
  operator_id_ = reader.header().operator_id;
  flags_ = reader.header().flags;
  words_.assign(reader.argument_words().begin(), reader.argument_words().end());
  arguments_ = arguments;
  record::Reader again = reader;
  record::Argument described;
  if (!again.open()) return false;
  for (const c10::IValue& argument : arguments_) {
    if (!again.next_argument(&described) || !bind(argument, described)) {
      return false;
    }
  }
  return true;
}

bool PreparedCall::bind(const c10::IValue& argument,
                        const record::Argument& described) {
  switch (described.tag) {
    case record::Tag::kTensor:
      if ((described.tensor.flags & record::kSame) != 0) return false;
      return bind_tensor(argument.toTensor(), described.tensor);
    case record::Tag::kNone:
    case record::Tag::kUndefined:
    case record::Tag::kInt:
    case record::Tag::kFloat:
    case record::Tag::kBool:
    case record::Tag::kComplex:
    case record::Tag::kDevice:
      return true;
    default:
      return false;  // what a kernel could change, or keep
  }
}

bool PreparedCall::bind_tensor(const at::Tensor& tensor,
                               const record::TensorView& view) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  c10::StorageImpl* const storage =
      impl->unsafe_storage().unsafeGetStorageImpl();
  if (storages_.size() <= view.storage) {
    storages_.resize(view.storage + 1, {nullptr, 0});
  }
  storages_[view.storage].impl = storage;
  ++storages_[view.storage].users;
  tensors_.push_back({impl, view.storage, extent_of(view)});
  return true;
}

bool PreparedCall::push_arguments(orKernelContext* ctx,
                                  const record::Reader& reader,
                                  torch::jit::Stack& stack) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const BoundTensor& tensor = tensors_[i];
    const uint64_t offset = reader.offset_words()[i];
    uint64_t bytes = 0;
    if (__builtin_add_overflow(offset, tensor.extent, &bytes) ||
        __builtin_mul_overflow(bytes, tensor.impl->itemsize(), &bytes) ||
        (tensor.extent != 0 && bytes > reader.storage(tensor.storage).bytes)) {
      return false;
    }
    tensor.impl->set_storage_offset(static_cast<int64_t>(offset));
  }
  for (uint32_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i].impl == nullptr) continue;
    const record::StorageView view = reader.storage(i);
    void* const data = orKernelTranslate(
        ctx, reinterpret_cast<const void*>(view.address), view.bytes);
    if (data == nullptr) throw IllegalAddress{};
    storages_[i].impl->set_data_ptr_noswap(
        {view.bytes == 0 ? nullptr : data, c10::Device(c10::DeviceType::CPU)});
    storages_[i].impl->set_nbytes(view.bytes);
  }
  stack.insert(stack.end(), arguments_.begin(), arguments_.end());
  return true;
}

bool PreparedCall::is_shared() const {
  const auto has_other_user = [](const BoundTensor& tensor) {
    return c10::raw::intrusive_ptr::use_count(tensor.impl) != 1;
  };
  const auto has_other_tensor = [](const BoundStorage& storage) {
    return storage.impl != nullptr &&
           c10::raw::intrusive_ptr::use_count(storage.impl) != storage.users;
  };
  return std::ranges::any_of(tensors_, has_other_user) ||
         std::ranges::any_of(storages_, has_other_tensor);
}

void PreparedCall::release() {
  if (C10_LIKELY(!is_shared())) return;
  for (auto& slot : kept()) {
    if (slot.get() == this) {
      slot.reset();
      return;
    }
  }
}

}  // namespace torch_openreg
