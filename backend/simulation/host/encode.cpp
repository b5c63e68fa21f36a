#include "backend/simulation/host/encode.h"

#include <ATen/ops/to.h>

#include <algorithm>
#include <cstring>

#include "backend/first_use.h"
#include "backend/pytorch/schema.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/generator.h"
#include "backend/simulation/common/composites.h"
#include "backend/simulation/common/lazy_flags.h"
#include "backend/simulation/common/scalars.h"
#include "backend/simulation/host/stand_ins.h"

namespace torch_openreg {

namespace {

uint8_t flags_of(const at::Tensor& tensor, bool is_written) {
  uint8_t flags = lazy_flags(tensor);
  if (!is_written) flags |= record::kReadOnly;
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    flags |= record::kWrappedNumber;
  }
  return flags;
}

bool is_ours(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone();
}

}  // namespace

// The first tensor of ours decides; a factory has an argument for it.
bool Encoder::find_device(std::span<const c10::IValue> arguments) {
  for (const c10::IValue& value : arguments) {
    // Lists are looked into where they are: a copy counts every tensor twice.
    const bool is_list = value.isTensorList() || value.isOptionalTensorList();
    const at::ArrayRef<c10::IValue> candidates =
        is_list ? value.toListRef() : at::ArrayRef<c10::IValue>(value);
    for (const c10::IValue& candidate : candidates) {
      if (candidate.isTensor() && find_device(candidate.toTensor()))
        return true;
    }
  }
  for (const c10::IValue& value : arguments) {
    if (!value.isDevice() || !value.toDevice().is_privateuseone()) continue;
    register_on_first_use();
    device_ = resolve_device(value.toDevice().index());
    return true;
  }
  return false;
}

bool Encoder::find_device(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return false;
  device_ = tensor.device().index();
  return true;
}

bool Encoder::is_host_index(const at::Tensor& tensor) const {
  return info_.takes_host_indices && tensor.is_cpu() && tensor.dim() > 0 &&
         isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

void Encoder::refuse(const at::Tensor& tensor) const {
  throw_mixed_devices(info_.op, {c10::DeviceType::PrivateUse1, device_},
                      tensor.device());
}

bool Encoder::add_host_tensor(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.dim() != 0) refuse(tensor);
  if (!is_plain(tensor) || tensor.itemsize() > 2 * sizeof(record::Word)) {
    return false;
  }
  const at::Tensor value = tensor.resolve_conj().resolve_neg();
  record::Word words[2] = {};
  std::memcpy(words, value.const_data_ptr(), value.itemsize());
  writer_.add_host_value(
      static_cast<uint8_t>(tensor.scalar_type()),
      flags_of(value, /*is_written=*/false) & record::kWrappedNumber, words[0],
      words[1]);
  return true;
}

bool Encoder::is_known(const at::Tensor& tensor) {
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  const bool found = writer_.has_shared_storage() &&
                     std::ranges::find(tensors_, impl) != tensors_.end();
  tensors_.push_back(impl);
  return found;
}

bool Encoder::add_tensor(const at::Tensor& tensor, bool is_written) {
  if (!tensor.defined()) {
    writer_.add_undefined();
    return true;
  }
  if (!tensor.is_privateuseone()) {
    if (is_written) refuse(tensor);
    return add_host_tensor(tensor);
  }
  if (tensor.device().index() != device_) refuse(tensor);
  if (C10_UNLIKELY(!is_plain(tensor))) return add_composite(tensor, is_written);
  if (tensor.dim() > int64_t{record::kMaxDimensions}) return false;
  c10::StorageImpl& storage =
      *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  // A lazy copy is made real only by who writes.
  const void* const data = is_written ? storage.mutable_data() : storage.data();
  const size_t bytes = storage.nbytes();
  const size_t own_bytes = tensor.nbytes();
  // A tensor without gaps that fits is the rule.
  if (C10_UNLIKELY(own_bytes + static_cast<size_t>(tensor.storage_offset()) *
                                   tensor.itemsize() >
                   bytes)) {
    check_extent(tensor);
  }
  const uint32_t number =
      writer_.add_storage(reinterpret_cast<uint64_t>(data), bytes);
  uint8_t flags = flags_of(tensor, is_written);
  if (C10_UNLIKELY(is_known(tensor))) flags |= record::kSame;
  writer_.add_tensor({.dtype = static_cast<uint8_t>(tensor.scalar_type()),
                      .flags = flags,
                      .offset = tensor.storage_offset(),
                      .sizes = tensor.sizes(),
                      .strides = tensor.strides()},
                     number);
  total_ += own_bytes;
  note_bytes(own_bytes);
  return true;
}

bool Encoder::add_composite(const at::Tensor& tensor, bool is_written) {
  const auto parts = take_apart(tensor);
  if (!parts.has_value()) return false;
  has_composites_ = true;
  return write_parts(*parts, writer_, [&](const at::Tensor& part) {
    return is_plain(part) && add_tensor(part, is_written);
  });
}

template <typename List>
bool Encoder::add_tensors(const List& tensors, bool is_written) {
  writer_.begin_list(record::Tag::kTensorList, tensors.size());
  const size_t before = total_;
  for (const at::Tensor& tensor : tensors) {
    if (!add_tensor(tensor, is_written)) return false;
  }
  note_bytes(total_ - before);
  return true;
}

bool Encoder::add(const at::ITensorListRef& tensors) {
  return add_tensors(tensors, /*is_written=*/false);
}

bool Encoder::add_list(c10::IValue& value, size_t index) {
  if (value.isTensorList()) {
    return add_tensors(value.toTensorList(), info_.written[index]);
  }
  if (value.isOptionalTensorList()) {
    auto list = value.toOptionalTensorVector();
    writer_.begin_list(record::Tag::kOptionalTensorList, list.size());
    bool has_moved = false;
    for (std::optional<at::Tensor>& tensor : list) {
      if (tensor.has_value() && tensor->defined() && is_host_index(*tensor)) {
        tensor = tensor->to(c10::Device(c10::DeviceType::PrivateUse1, device_));
        has_moved = true;
      }
      if (!add_tensor(tensor.value_or(at::Tensor()), info_.written[index])) {
        return false;
      }
    }
    if (has_moved) value = c10::List<std::optional<at::Tensor>>(list);
    return true;
  }
  if (value.isIntList()) {
    writer_.add_ints(value.toIntVector());
    return true;
  }
  if (value.isDoubleList()) {
    writer_.add_floats(value.toDoubleVector());
    return true;
  }
  if (value.isBoolList()) {
    const c10::List<bool> list = value.toBoolList();
    writer_.begin_bools(list.size());
    for (const bool element : list) writer_.add_word(element ? 1 : 0);
    return true;
  }
  if (value.isList()) {  // of scalars, or of symbolic integers
    auto list = value.toListRef();
    writer_.begin_list(record::Tag::kScalarList, list.size());
    for (const c10::IValue& element : list) {
      if (!element.isScalar() || !write_scalar(element, writer_)) return false;
    }
    return true;
  }
  return false;
}

void Encoder::add_generator(const c10::IValue& value) {
  const at::Generator given = value.isNone()
                                  ? getDefaultOpenRegGenerator(device_)
                                  : value.toGenerator();
  TORCH_CHECK(given.device().is_privateuseone(), "Expected a '",
              c10::DeviceTypeName(c10::DeviceType::PrivateUse1, true),
              "' device type for generator but found '",
              c10::DeviceTypeName(given.device().type(), true), "'");
  writer_.add_generator(
      static_cast<OpenRegGeneratorImpl*>(given.unsafeGetGeneratorImpl())
          ->prepare_draw(device_));
}

bool Encoder::add(const at::Scalar& number) {
  switch (number.type()) {
    case c10::ScalarType::Long:
      if (number.isSymbolic()) return false;
      writer_.add_number(number.toLong());
      return true;
    case c10::ScalarType::Double:
      if (number.isSymbolic()) return false;
      writer_.add_number(number.toDouble());
      return true;
    default:
      return write_scalar(number, writer_);
  }
}

bool Encoder::add(c10::IValue& value, size_t index) {
  if (value.isTensor()) {
    return add_tensor(value.toTensor(), info_.written[index]);
  }
  if (value.isDouble()) {
    writer_.add_number(value.toDouble());
    return true;
  }
  if (value.isInt() && info_.takes_number[index]) {
    writer_.add_number(value.toInt());
    return true;
  }
  if (write_scalar(value, writer_)) return true;
  if (value.isString()) {
    writer_.add_string(value.toStringRef());
  } else if (value.isDevice()) {
    writer_.add_device();
  } else if (value.isList()) {
    return add_list(value, index);
  } else {
    return false;
  }
  return true;
}

bool Encoder::encode(std::span<c10::IValue> arguments) {
  if (!find_device(arguments)) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (static_cast<int>(i) == info_.generator) {
      add_generator(arguments[i]);
    } else if (!add(arguments[i], i)) {
      return false;
    }
  }
  return true;
}

}  // namespace torch_openreg
