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

// How often a spare serves the same call before it is that call's for good.
constexpr uint32_t kOften = 16;

struct Slot {
  // How often a call that is not kept here has come in a row.
  uint32_t count(uint64_t hash) {
    if (std::exchange(seen, hash) != hash) times = 0;
    return ++times;
  }

  std::unique_ptr<PreparedCall> call;
  uint64_t seen = 0;  // the hash of a call that was not kept
  uint32_t times = 0;
};

struct Kept {
  std::array<Slot, kKept> slots;
  std::array<std::unique_ptr<PreparedCall>, kKept> spares;
};

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

Slot& slot_of(uint64_t hash) { return kept().slots[hash >> (64 - kKeptBits)]; }

// By what calls that a spare fits have in common.
std::unique_ptr<PreparedCall>& spare_of(const record::Reader& reader) {
  const record::Header& header = reader.header();
  const std::array<record::Word, 2> sizes = {
      header.argument_words | record::Word{header.output_words} << 32,
      header.storage_count | record::Word{header.offset_words} << 32};
  return kept()
      .spares[record::MetadataCache::hash_of(header.operator_id, 0, sizes) >>
              (64 - kKeptBits)];
}

}  // namespace

PreparedCall* PreparedCall::find(const record::Reader& reader) {
  if (!is_small(reader)) return nullptr;
  const uint64_t hash = hash_of(reader);
  Slot& slot = slot_of(hash);
  if (slot.call != nullptr && slot.call->fits(reader)) return slot.call.get();
  std::unique_ptr<PreparedCall>& spare = spare_of(reader);
  if (spare == nullptr) return nullptr;
  if (!spare->fits(reader)) {
    if (!spare->differs_in_shapes(reader)) return nullptr;
    if (!spare->reshape(reader)) {
      spare.reset();
      return nullptr;
    }
  }
  if (slot.count(hash) < kOften) return spare.get();
  slot.call = std::move(spare);
  return slot.call.get();
}

void PreparedCall::keep(const record::Reader& reader,
                        const torch::jit::Stack& arguments,
                        const DirectCall* direct) {
  if (!is_small(reader) || !std::ranges::all_of(arguments, is_simple)) return;
  std::unique_ptr<PreparedCall>& spare = spare_of(reader);
  if (spare == nullptr) {
    spare = make(reader, arguments, direct);
    return;
  }
  const uint64_t hash = hash_of(reader);
  Slot& slot = slot_of(hash);
  if (slot.count(hash) < 2) return;
  std::unique_ptr<PreparedCall> call = make(reader, arguments, direct);
  if (call != nullptr) slot.call = std::move(call);
}

// Null if it can't be.
std::unique_ptr<PreparedCall> PreparedCall::make(
    const record::Reader& reader, const torch::jit::Stack& arguments,
    const DirectCall* direct) {
  auto call = std::make_unique<PreparedCall>();
  call->direct_ = direct;
  if (!call->prepare(reader, arguments)) return nullptr;
  return call;
}

bool PreparedCall::take_record(const record::Reader& reader) {
  const auto words = reader.words();
  record_.assign(words.begin(), words.end());
  first_ = record::Reader(record_);
  return first_.open();
}

bool PreparedCall::prepare(const record::Reader& reader,
                           const torch::jit::Stack& arguments) {
  if (!take_record(reader)) return false;
  record::Reader rest = first_;
  arguments_ = arguments;
  record::Argument described;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!rest.next_argument(&described) ||
        !prepare_argument(i, described, rest)) {
      return false;
    }
  }
  if (!read_outputs()) return false;
  if (!has_plain_output()) direct_ = nullptr;
  if (is_direct()) prepare_direct();
  return true;
}

// Words that are as many, of as many arguments and outputs, which need as many
// storages, offsets and values.
bool PreparedCall::has_tables_of(const record::Reader& reader) const {
  const record::Header& own = first_.header();
  const record::Header& other = reader.header();
  return own.operator_id == other.operator_id && own.flags == other.flags &&
         own.argument_count == other.argument_count &&
         own.argument_words == other.argument_words &&
         own.output_count == other.output_count &&
         own.output_words == other.output_words &&
         own.storage_count == other.storage_count &&
         own.offset_words == other.offset_words &&
         own.value_words == other.value_words;
}

// Whether the words are the same.
bool PreparedCall::fits(const record::Reader& reader) const {
  return has_tables_of(reader) &&
         std::ranges::equal(first_.argument_words(), reader.argument_words()) &&
         std::ranges::equal(first_.output_words(), reader.output_words());
}

std::span<const PreparedCall::BoundTensor> PreparedCall::argument_tensors()
    const {
  return std::span(tensors_).first(tensors_.size() - (is_direct() ? 1 : 0));
}

// Whether the words are the same but for sizes and strides. A tensor that comes
// twice must look the same twice, which is left to the decoder.
bool PreparedCall::differs_in_shapes(const record::Reader& reader) const {
  if (!has_tables_of(reader)) return false;
  const auto are_equal = [](std::span<const record::Word> own,
                            std::span<const record::Word> other, size_t first,
                            size_t end) {
    return std::ranges::equal(own.subspan(first, end - first),
                              other.subspan(first, end - first));
  };
  const auto own = first_.argument_words();
  const auto other = reader.argument_words();
  size_t compared = 0;
  for (const BoundTensor& tensor : argument_tensors()) {
    if (tensor.is_same || !are_equal(own, other, compared, tensor.shape)) {
      return false;
    }
    compared = tensor.shape + 2 * static_cast<size_t>(tensor.impl->dim());
  }
  if (!are_equal(own, other, compared, own.size())) return false;
  size_t output = 0;
  for (const Expected& expected : outputs_) {
    if (first_.output_words()[output] != reader.output_words()[output]) {
      return false;
    }
    output += 1 + 2 * expected.view.sizes.size();
  }
  return true;
}

// Gives the tensors the sizes and strides of a record that differs in nothing
// else. False if they can't be; then there is nothing left to use.
bool PreparedCall::reshape(const record::Reader& reader) {
  if (!take_record(reader) || !read_outputs()) return false;
  const auto* const words =
      reinterpret_cast<const int64_t*>(first_.argument_words().data());
  const size_t arguments = argument_tensors().size();
  for (BoundTensor& tensor : std::span(tensors_).first(arguments)) {
    const auto dimensions = static_cast<size_t>(tensor.impl->dim());
    const std::span sizes(words + tensor.shape, dimensions);
    const std::span strides(words + tensor.shape + dimensions, dimensions);
    const auto extent = record::extent_of(sizes, strides);
    if (!extent.has_value()) return false;
    tensor.extent = *extent;
    tensor.impl->set_sizes_and_strides(at::IntArrayRef(sizes),
                                       at::IntArrayRef(strides));
  }
  if (!is_direct()) return true;
  if (!has_plain_output()) return false;
  const record::TensorView& view = outputs_[0].view;
  tensors_.back().extent = extents_[0];
  out_.unsafeGetTensorImpl()->set_sizes_and_strides(
      at::IntArrayRef(view.sizes), at::IntArrayRef(view.strides));
  out_sizes_.assign(view.sizes.begin(), view.sizes.end());
  return true;
}

bool PreparedCall::prepare_argument(size_t index,
                                    const record::Argument& described,
                                    record::Reader& rest) {
  const bool is_apart = (first_.header().flags & record::kValuesApart) != 0;
  switch (described.tag) {
    case record::Tag::kTensor:
      add_tensor(arguments_[index].toTensor(), described.tensor,
                 shape_before(described.tensor, rest));
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
        add_tensor(elements[i].toTensor(), described.tensor,
                   shape_before(described.tensor, rest));
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

// Where the sizes of the tensor are that was read last.
size_t PreparedCall::shape_before(const record::TensorView& view,
                                  const record::Reader& rest) const {
  return first_.argument_words().size() - rest.argument_words().size() -
         2 * view.sizes.size();
}

// False if an output is malformed.
bool PreparedCall::read_outputs() {
  outputs_.clear();
  extents_.clear();
  record::Reader rest = first_;
  record::TensorView view;
  for (uint32_t i = 0; i < first_.header().output_count; ++i) {
    if (!rest.next_output(&view) || !is_dtype(view.dtype)) return false;
    const auto extent = record::extent_of(view.sizes, view.strides);
    if (!extent.has_value()) return false;
    outputs_.push_back({view, nullptr});
    extents_.push_back(*extent);
  }
  return true;
}

// Whether there is a single output, which a tensor of its own can be.
bool PreparedCall::has_plain_output() const {
  return outputs_.size() == 1 && outputs_[0].view.offset == 0 &&
         outputs_[0].view.flags == 0;
}

void PreparedCall::prepare_direct() {
  const record::TensorView& view = outputs_[0].view;
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
  add_tensor(out_, view, /*shape=*/0);
}

void PreparedCall::add_tensor(const at::Tensor& tensor,
                              const record::TensorView& view, size_t shape) {
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
  tensors_.push_back({impl, view.storage, extent, users, is_same, shape});
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

// Never null.
void* PreparedCall::translate(orKernelContext* ctx,
                              const record::StorageView& view) {
  void* const data = orKernelTranslate(
      ctx, reinterpret_cast<const void*>(view.address), view.bytes);
  if (data == nullptr) throw IllegalAddress{};
  return data;
}

// Each is the start of a storage.
bool PreparedCall::bind_outputs(orKernelContext* ctx,
                                const record::Reader& reader) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const record::TensorView& view = outputs_[i].view;
    const record::StorageView storage = reader.storage(view.storage);
    const size_t itemsize =
        c10::elementSize(static_cast<c10::ScalarType>(view.dtype));
    if (reader.output_offset_words()[i] != 0 ||
        !record::lies_within(extents_[i], 0, itemsize, storage.bytes)) {
      return false;
    }
    void* const data = translate(ctx, storage);
    outputs_[i].data = storage.bytes == 0 ? nullptr : data;
  }
  return true;
}

bool PreparedCall::bind(orKernelContext* ctx, const record::Reader& reader) {
  const std::span<const record::Word> offsets = reader.offset_words();
  const std::span<const BoundTensor> arguments = argument_tensors();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto offset = static_cast<int64_t>(offsets[i]);
    if (!bind_tensor(arguments[i], offset, reader)) return false;
  }
  if (is_direct() && (reader.output_offset_words()[0] != 0 ||
                      !bind_tensor(tensors_.back(), 0, reader))) {
    return false;
  }
  for (uint32_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i].impl == nullptr) continue;
    const record::StorageView view = reader.storage(i);
    void* const data = translate(ctx, view);
    storages_[i].impl->set_data_ptr_noswap(
        {view.bytes == 0 ? nullptr : data, c10::Device(c10::DeviceType::CPU)});
    storages_[i].impl->set_nbytes(view.bytes);
  }
  bind_values(reader.value_words());
  return is_direct() || bind_outputs(ctx, reader);
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
  for (std::unique_ptr<PreparedCall>& spare : kept().spares) {
    if (spare.get() == this) return spare.reset();
  }
  for (Slot& slot : kept().slots) {
    if (slot.call.get() == this) return slot.call.reset();
  }
}

}  // namespace torch_openreg::device
