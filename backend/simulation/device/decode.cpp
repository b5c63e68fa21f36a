#include "backend/simulation/device/decode.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <stdexcept>

#include "backend/simulation/common/lazy_flags.h"
#include "backend/simulation/common/scalars.h"
#include "backend/simulation/device/generators.h"

namespace torch_openreg::device {

namespace {

using record::Argument;
using record::Tag;

[[noreturn]] void malformed(const char* what) {
  throw std::invalid_argument(std::string("a malformed launch record: ") +
                              what);
}

c10::ScalarType dtype_of(uint8_t number) {
  if (!is_dtype(number)) malformed("dtype");
  return static_cast<c10::ScalarType>(number);
}

at::Tensor host_value(const Argument& argument) {
  const c10::ScalarType dtype = dtype_of(argument.tensor.dtype);
  at::Tensor tensor = at::empty({}, at::dtype(dtype));
  std::memcpy(tensor.mutable_data_ptr(), argument.words, tensor.itemsize());
  if ((argument.tensor.flags & record::kWrappedNumber) != 0) {
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return tensor;
}

// Storages without memory have no address to be known by: each has a number of
// its own.
bool have_one_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.is_alias_of(b) ||
         (a.storage().nbytes() == 0 && b.storage().nbytes() == 0);
}

}  // namespace

const c10::Storage& Decoder::storage(uint32_t index) {
  c10::Storage& storage = storages_[index].storage;
  if (storage) return storage;
  void* const data = translate(index);
  storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), reader_.storage(index).bytes,
      c10::DataPtr(data, c10::Device(c10::DeviceType::CPU)),
      resizable_ ? c10::GetCPUAllocator() : nullptr, resizable_);
  return storage;
}

// Null for an empty storage.
void* Decoder::translate(uint32_t index) {
  Slot& slot = storages_[index];
  if (slot.is_translated) return slot.data;
  const record::StorageView view = reader_.storage(index);
  void* const data = orKernelTranslate(
      ctx_, reinterpret_cast<const void*>(view.address), view.bytes);
  if (data == nullptr) throw IllegalAddress{};
  slot.data = view.bytes == 0 ? nullptr : data;
  slot.is_translated = true;
  return slot.data;
}

void* Decoder::data_of(const record::TensorView& view) {
  if (view.offset != 0 ||
      !reader_.fits(view, c10::elementSize(dtype_of(view.dtype)))) {
    malformed("output");
  }
  return translate(view.storage);
}

at::Tensor Decoder::tensor(const record::TensorView& view) {
  const c10::ScalarType dtype = dtype_of(view.dtype);
  if (!reader_.fits(view, c10::elementSize(dtype))) {
    malformed("a tensor reaches beyond its storage");
  }
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage(view.storage)),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      at::IntArrayRef(view.sizes), at::IntArrayRef(view.strides), view.offset);
  set_lazy_flags(tensor, view.flags);
  return tensor;
}

at::Tensor Decoder::argument_tensor(const record::TensorView& view) {
  at::Tensor like = tensor(view);
  if (C10_LIKELY((view.flags & record::kSame) == 0)) {
    // Where every tensor has a storage of its own, none comes twice.
    if (reader_.header().offset_words != reader_.header().storage_count) {
      tensors_.push_back(like);
    }
    return like;
  }
  for (const at::Tensor& earlier : tensors_) {
    if (have_one_storage(earlier, like) && earlier.dtype() == like.dtype() &&
        earlier.storage_offset() == like.storage_offset() &&
        earlier.sizes() == like.sizes() &&
        earlier.strides() == like.strides() &&
        earlier.is_conj() == like.is_conj() &&
        earlier.is_neg() == like.is_neg()) {
      return earlier;
    }
  }
  malformed("a tensor that is not there");
}

at::Tensor Decoder::next_tensor() {
  Argument argument;
  if (!reader_.next_argument(&argument)) malformed("tensor of a list");
  switch (argument.tag) {
    case Tag::kTensor:
      return argument_tensor(argument.tensor);
    case Tag::kHostValue:
      return host_value(argument);
    case Tag::kComposite:
      return composite(argument.composite);
    case Tag::kUndefined:
    case Tag::kNone:
      return {};
    default:
      malformed("element of a tensor list");
  }
}

// Kernels ask whether their result is one of their arguments: what has the same
// parts is one tensor.
at::Tensor Decoder::composite(record::Composite kind) {
  auto parts = read_parts(kind, reader_, [this](const Argument& part) {
    return tensor(part.tensor);
  });
  if (!parts.has_value()) malformed("part of a composite");
  for (const auto& [known, tensor] : composites_) {
    if (are_same(known, *parts)) return tensor;
  }
  check_shapes(*parts);
  at::Tensor tensor = put_together(*parts);
  const bool needs_gradient =
      (reader_.header().flags & record::kNeedsGradient) != 0;
  if (needs_gradient && (tensor.is_floating_point() || tensor.is_complex())) {
    tensor.set_requires_grad(true);
  }
  composites_.emplace_back(*std::move(parts), tensor);
  return tensor;
}

c10::IValue Decoder::tensor_list(uint32_t length) {
  c10::List<at::Tensor> list;
  list.reserve(length);
  for (uint32_t i = 0; i < length; ++i) list.push_back(next_tensor());
  return list;
}

c10::IValue Decoder::optional_tensor_list(uint32_t length) {
  c10::List<std::optional<at::Tensor>> list;
  list.reserve(length);
  for (uint32_t i = 0; i < length; ++i) {
    at::Tensor tensor = next_tensor();
    list.push_back(tensor.defined() ? std::optional(std::move(tensor))
                                    : std::nullopt);
  }
  return list;
}

c10::IValue Decoder::scalar_list(uint32_t length) {
  c10::List<at::Scalar> list;
  list.reserve(length);
  for (uint32_t i = 0; i < length; ++i) {
    Argument argument;
    if (!reader_.next_argument(&argument)) malformed("scalar of a list");
    const c10::IValue element = value(argument);
    if (!element.isScalar()) malformed("element of a scalar list");
    list.push_back(element.toScalar());
  }
  return list;
}

c10::IValue Decoder::value(const Argument& argument) {
  if (auto scalar = read_scalar(argument)) return *std::move(scalar);
  switch (argument.tag) {
    case Tag::kTensor:
      return argument_tensor(argument.tensor);
    case Tag::kUndefined:
      return at::Tensor();
    case Tag::kComposite:
      return composite(argument.composite);
    case Tag::kHostValue:
      return host_value(argument);
    case Tag::kString:
      return std::string(argument.text);
    case Tag::kDevice:
      return c10::Device(c10::DeviceType::CPU);
    case Tag::kGenerator:
      return find_generator(argument.words[0]);
    case Tag::kIntList:
      return at::IntArrayRef(argument.integers);
    case Tag::kFloatList:
      return at::ArrayRef<double>(argument.floats);
    case Tag::kBoolList: {
      c10::List<bool> list;
      for (const int64_t element : argument.integers) {
        list.push_back(element != 0);
      }
      return list;
    }
    case Tag::kTensorList:
      return tensor_list(argument.number);
    case Tag::kOptionalTensorList:
      return optional_tensor_list(argument.number);
    case Tag::kScalarList:
      return scalar_list(argument.number);
    default:
      malformed("tag");
  }
}

void Decoder::push_arguments(torch::jit::Stack& stack) {
  const uint32_t count = reader_.header().argument_count;
  Argument argument;
  for (uint32_t i = 0; i < count; ++i) {
    if (!reader_.next_argument(&argument)) malformed("argument");
    stack.push_back(value(argument));
  }
}

}  // namespace torch_openreg::device
