#include "backend/simulation/device/prepared_call.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "backend/simulation/device/decode.h"
#include "backend/simulation/record/extent.h"
#include "backend/simulation/record/metadata_cache.h"

namespace torch_openreg::device {

namespace {

constexpr unsigned kKeptBits = 7;  // of the hash of a call
constexpr size_t kKept = size_t{1} << kKeptBits;
constexpr size_t kMaxWords = 512;  // of arguments

struct Slot {
  std::unique_ptr<PreparedCall> call;
  uint64_t seen = 0;  // the hash of a call that was not kept
};
using Kept = std::array<Slot, kKept>;

Kept& kept() {
  static thread_local Kept calls;
  return calls;
}

bool is_small(const record::Reader& reader) {
  return reader.argument_words().size() <= kMaxWords;
}

// Whether it may be used again: no generator.
bool is_simple(const c10::IValue& argument) {
  return argument.isTensor() || argument.isNone() || argument.isScalar() ||
         argument.isDevice() || argument.isList() || argument.isString();
}

uint64_t hash_of(const record::Reader& reader) {
  return record::MetadataCache::hash_of(reader.header().operator_id, 0,
                                        reader.argument_words());
}

Slot& slot_of(uint64_t hash) { return kept()[hash >> (64 - kKeptBits)]; }

}  // namespace

PreparedCall* PreparedCall::find(const record::Reader& reader) {
  if (!is_small(reader)) return nullptr;
  PreparedCall* const call = slot_of(hash_of(reader)).call.get();
  const bool fits =
      call != nullptr && call->operator_id_ == reader.header().operator_id &&
      call->flags_ == reader.header().flags && call->has_tables_of(reader) &&
      std::ranges::equal(call->words_, reader.argument_words()) &&
      std::ranges::equal(call->output_words_, reader.output_words());
  return fits ? call : nullptr;
}

void PreparedCall::keep(const record::Reader& reader,
                        const torch::jit::Stack& arguments,
                        const DirectCall* direct) {
  if (!is_small(reader) || !std::ranges::all_of(arguments, is_simple)) return;
  const uint64_t hash = hash_of(reader);
  Slot& slot = slot_of(hash);
  if (std::exchange(slot.seen, hash) != hash) return;
  auto call = std::make_unique<PreparedCall>();
  call->direct_ = direct;
  if (call->prepare(reader, arguments)) slot.call = std::move(call);
}

bool PreparedCall::prepare(const record::Reader& reader,
                           const torch::jit::Stack& arguments) {
  operator_id_ = reader.header().operator_id;
  flags_ = reader.header().flags;
  argument_count_ = reader.header().argument_count;
  output_count_ = reader.header().output_count;
  storage_count_ = reader.header().storage_count;
  offset_words_ = reader.header().offset_words;
  value_words_ = reader.header().value_words;
  const auto words = reader.argument_words();
  words_.assign(words.begin(), words.end());
  const auto outputs = reader.output_words();
  output_words_.assign(outputs.begin(), outputs.end());
  arguments_ = arguments;
  record::Reader again = reader;
  record::Argument described;
  if (!again.open()) return false;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!again.next_argument(&described) ||
        !prepare_argument(i, described, again)) {
      return false;
    }
  }
  return direct_ == nullptr || prepare_output(again);
}

// Words that are the same are as many arguments and outputs, and need as many
// storages, offsets and values; a record that says otherwise is malformed.
bool PreparedCall::has_tables_of(const record::Reader& reader) const {
  return reader.header().argument_count == argument_count_ &&
         reader.header().output_count == output_count_ &&
         reader.header().storage_count == storage_count_ &&
         reader.header().offset_words == offset_words_ &&
         reader.header().value_words == value_words_;
}

bool PreparedCall::prepare_argument(size_t index,
                                    const record::Argument& described,
                                    record::Reader& rest) {
  const bool is_apart = (flags_ & record::kValuesApart) != 0;
  switch (described.tag) {
    case record::Tag::kTensor:
      add_tensor(arguments_[index].toTensor(), described.tensor);
      return true;
    case record::Tag::kHostValue:
      if (is_apart) {
        values_.push_back({index, described.tag,
                           arguments_[index].toTensor().unsafeGetTensorImpl()});
      }
      return is_apart;
    case record::Tag::kFloat:
    case record::Tag::kInt:
      if (described.is_apart ||
          (is_apart && described.tag == record::Tag::kFloat)) {
        values_.push_back({index, described.tag, nullptr});
      }
      return true;
    case record::Tag::kComplex:
      return !is_apart;
    case record::Tag::kNone:
    case record::Tag::kUndefined:
    case record::Tag::kBool:
    case record::Tag::kDevice:
    case record::Tag::kIntList:
    case record::Tag::kString:
      return true;
    case record::Tag::kTensorList:
    case record::Tag::kOptionalTensorList:
      return prepare_list(arguments_[index], described.number, rest);
    default:
      return false;  // what a kernel could change, or keep
  }
}

// The list's tensors are the argument's: who runs the call gets a copy of it.
bool PreparedCall::prepare_list(const c10::IValue& list, uint32_t length,
                                record::Reader& rest) {
  const at::ArrayRef<c10::IValue> elements = list.toListRef();
  record::Argument described;
  for (uint32_t i = 0; i < length; ++i) {
    if (!rest.next_argument(&described)) return false;
    switch (described.tag) {
      case record::Tag::kTensor:
        add_tensor(elements[i].toTensor(), described.tensor);
        break;
      case record::Tag::kNone:
      case record::Tag::kUndefined:
        break;
      default:
        return false;
    }
  }
  return true;
}

// False if the output is malformed. Nothing is to be done directly if there is
// no such output.
bool PreparedCall::prepare_output(record::Reader& reader) {
  record::TensorView view;
  if (reader.header().output_count != 1) {
    direct_ = nullptr;
    return true;
  }
  if (!reader.next_output(&view) || !is_dtype(view.dtype) ||
      !reader.fits(
          view, c10::elementSize(static_cast<c10::ScalarType>(view.dtype)))) {
    return false;
  }
  if (view.offset != 0 || view.flags != 0) {
    direct_ = nullptr;
    return true;
  }
  out_ = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), 0,
          c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)), nullptr,
          /*resizable=*/false)),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(view.dtype)));
  out_.unsafeGetTensorImpl()->set_sizes_and_strides(
      at::IntArrayRef(view.sizes), at::IntArrayRef(view.strides));
  out_sizes_.assign(view.sizes.begin(), view.sizes.end());
  add_tensor(out_, view);
  return true;
}

void PreparedCall::add_tensor(const at::Tensor& tensor,
                              const record::TensorView& view) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (storages_.size() <= view.storage) {
    storages_.resize(view.storage + 1, {nullptr, 0});
  }
  storages_[view.storage].impl = impl->unsafe_storage().unsafeGetStorageImpl();
  const bool is_same = (view.flags & record::kSame) != 0;
  if (!is_same) ++storages_[view.storage].users;
  uint32_t users = 1;
  for (BoundTensor& other : tensors_) {
    if (other.impl == impl) users = ++other.users;
  }
  // The decoder has accepted it, so it has one.
  const uint64_t extent = record::extent_of(view.sizes, view.strides).value();
  tensors_.push_back({impl, view.storage, extent, users, is_same});
}

bool PreparedCall::bind_tensor(const BoundTensor& tensor, int64_t offset,
                               const record::Reader& reader) {
  if (!record::lies_within(tensor.extent, offset, tensor.impl->itemsize(),
                           reader.storage(tensor.storage).bytes)) {
    return false;
  }
  if (tensor.impl->storage_offset() != offset) {
    if (tensor.is_same) return false;
    tensor.impl->set_storage_offset(offset);
  }
  return true;
}

void PreparedCall::bind_values(std::span<const record::Word> words) {
  for (const BoundValue& value : values_) {
    if (value.tag == record::Tag::kHostValue) {
      std::memcpy(value.impl->mutable_data(), words.data(),
                  value.impl->itemsize());
      words = words.subspan(2);
      continue;
    }
    c10::IValue& argument = arguments_[value.argument];
    if (value.tag == record::Tag::kInt) {
      argument = static_cast<int64_t>(words[0]);
    } else {
      argument = std::bit_cast<double>(words[0]);
    }
    words = words.subspan(1);
  }
}

bool PreparedCall::bind(orKernelContext* ctx, const record::Reader& reader) {
  const std::span<const record::Word> offsets = reader.offset_words();
  const size_t arguments = tensors_.size() - (is_direct() ? 1 : 0);
  for (size_t i = 0; i < arguments; ++i) {
    const auto offset = static_cast<int64_t>(offsets[i]);
    if (!bind_tensor(tensors_[i], offset, reader)) return false;
  }
  if (is_direct() && (reader.output_offset_words()[0] != 0 ||
                      !bind_tensor(tensors_.back(), 0, reader))) {
    return false;
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
  bind_values(reader.value_words());
  return true;
}

void PreparedCall::run_direct() {
  direct_->call(arguments_, out_);
  TORCH_INTERNAL_ASSERT(
      has_output_as_expected(), "the host expected an output of ",
      at::IntArrayRef(out_sizes_), ", and the kernel gave ", out_.sizes());
}

// An out= kernel resizes an output of another size, if it fits its storage.
bool PreparedCall::has_output_as_expected() const {
  return !is_direct() || out_.sizes() == at::IntArrayRef(out_sizes_);
}

bool PreparedCall::is_shared() const {
  const auto has_other_user = [](const BoundTensor& tensor) {
    return c10::raw::intrusive_ptr::use_count(tensor.impl) != tensor.users;
  };
  const auto has_other_tensor = [](const BoundStorage& storage) {
    return storage.impl != nullptr &&
           c10::raw::intrusive_ptr::use_count(storage.impl) != storage.users;
  };
  const auto has_kept_value = [](const BoundValue& value) {
    return value.impl != nullptr &&
           c10::raw::intrusive_ptr::use_count(value.impl) != 1;
  };
  return std::ranges::any_of(tensors_, has_other_user) ||
         std::ranges::any_of(storages_, has_other_tensor) ||
         std::ranges::any_of(values_, has_kept_value);
}

void PreparedCall::release() {
  if (C10_LIKELY(!is_shared() && has_output_as_expected())) return;
  for (Slot& slot : kept()) {
    if (slot.call.get() == this) {
      slot.call.reset();
      return;
    }
  }
}

}  // namespace torch_openreg::device
