#include "backend/aten/metadata.h"

#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <utility>
#include <vector>

#include "backend/executor/clean_dispatch.h"
#include "backend/executor/failure.h"

namespace torch_openreg {

namespace {

const c10::Device kMetaDevice(c10::DeviceType::Meta);
constexpr c10::DispatchKeySet kMetaKeys(c10::DispatchKey::Meta);

// Meta tensors for the arguments of a call. Storages keep their identity and
// their addresses, so that checks for overlap see what the CPU's would.
class MetaArguments {
 public:
  c10::IValue convert(const c10::IValue& value) {
    if (value.isTensor()) return convert(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        list.push_back(convert(tensor));
      }
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor.has_value() ? std::optional(convert(*tensor))
                                          : std::nullopt);
      }
      return list;
    }
    if (value.isDevice()) return kMetaDevice;
    if (value.isGenerator()) return {};
    return value;
  }

  at::Tensor convert(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_cpu()) return tensor;
    at::Tensor meta = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage(tensor.storage())),
        c10::DispatchKeySet(c10::DispatchKey::Meta), tensor.dtype());
    c10::TensorImpl& impl = *meta.unsafeGetTensorImpl();
    impl.set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                               tensor.storage_offset());
    if (tensor.is_conj()) impl._set_conj(true);
    if (tensor.is_neg()) impl._set_neg(true);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      impl.set_wrapped_number(true);
    }
    return meta;
  }

 private:
  const c10::Storage& storage(const c10::Storage& real) {
    for (const auto& [known, meta] : storages_) {
      if (known == real.unsafeGetStorageImpl()) return meta;
    }
    c10::StorageImpl* const impl = real.unsafeGetStorageImpl();
    storages_.emplace_back(
        impl, c10::make_intrusive<c10::StorageImpl>(
                  c10::StorageImpl::use_byte_size_t(), impl->nbytes(),
                  c10::DataPtr(const_cast<void*>(impl->data()), kMetaDevice),
                  c10::GetAllocator(c10::DeviceType::Meta),
                  /*resizable=*/true));
    return storages_.back().second;
  }

  std::vector<std::pair<c10::StorageImpl*, c10::Storage>> storages_;
};

record::OutputShape shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return output_shape(tensor.scalar_type(), tensor.sizes(), tensor.strides());
}

// Reads the results of a Meta call.
std::shared_ptr<record::CallMetadata> read_results(
    const OperatorInfo& info, const torch::jit::Stack& results) {
  auto metadata = std::make_shared<record::CallMetadata>();
  for (size_t i = 0; i < info.aliased.size(); ++i) {
    if (info.aliased[i] >= 0) continue;
    if (results[i].isTensor()) {
      metadata->returns.push_back(record::CallMetadata::kSingle);
      metadata->outputs.push_back(shape_of(results[i].toTensor()));
      continue;
    }
    const auto list = results[i].toTensorVector();
    metadata->returns.push_back(static_cast<int32_t>(list.size()));
    for (const at::Tensor& tensor : list) {
      metadata->outputs.push_back(shape_of(tensor));
    }
  }
  return metadata;
}

void read_resizes(const OperatorInfo& info,
                  std::span<const c10::IValue> arguments,
                  std::span<const c10::IValue> after,
                  record::CallMetadata& metadata) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!info.written[i] || !arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    const at::Tensor& meta = after[i].toTensor();
    if (!tensor.defined() || meta.sizes() == tensor.sizes()) continue;
    metadata.resizes.push_back({static_cast<uint32_t>(i), meta.sizes().vec()});
  }
}

// No mode of the thread changes what PyTorch's functions in Python do. A
// thread's own.
class PlainTorchFunction {
 public:
  PlainTorchFunction() {
    Tls::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  }
  ~PlainTorchFunction() { Tls::set_disabled_state(before_); }
  PlainTorchFunction(const PlainTorchFunction&) = delete;
  PlainTorchFunction& operator=(const PlainTorchFunction&) = delete;

 private:
  using Tls = at::impl::PythonTorchFunctionTLS;
  const at::impl::TorchFunctionDisabledState before_ =
      Tls::get_disabled_state();
};

// Throws the same with the name of our device in the place of Meta's.
[[noreturn]] void rethrow_for_device(const c10::Error& error,
                                     c10::DeviceIndex device) {
  std::string text = describe_failure(error);
  const std::string ours =
      c10::Device(c10::DeviceType::PrivateUse1, device).str();
  constexpr std::string_view kMeta = "meta";
  for (size_t at = text.find(kMeta); at != std::string::npos;
       at = text.find(kMeta, at + ours.size())) {
    text.replace(at, kMeta.size(), ours);
  }
  rethrow_failure(text);
  throw error;
}

template <typename Call>
std::shared_ptr<const record::CallMetadata> call_meta(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device, Call call) {
  MetaArguments meta;
  torch::jit::Stack stack;
  for (const c10::IValue& value : arguments) {
    stack.push_back(meta.convert(value));
  }
  const torch::jit::Stack before = stack;
  try {
    const CleanDispatch clean;
    call(&stack);
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (const c10::Error& error) {
    rethrow_for_device(error, device);
  }
  const auto metadata = read_results(info, stack);
  read_resizes(info, arguments, before, *metadata);
  return metadata;
}

}  // namespace

record::OutputShape output_shape(c10::ScalarType dtype, at::IntArrayRef sizes,
                                 at::IntArrayRef strides) {
  record::OutputShape shape;
  shape.tensor.push_back(
      record::FirstWord{record::Tag::kTensor, static_cast<uint8_t>(dtype), 0,
                        static_cast<uint8_t>(sizes.size()), 0}
          .pack());
  shape.tensor.insert(shape.tensor.end(), sizes.begin(), sizes.end());
  shape.tensor.insert(shape.tensor.end(), strides.begin(), strides.end());
  shape.bytes =
      at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  return shape;
}

std::shared_ptr<const record::CallMetadata> infer_metadata(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device) {
  if (!info.is_meta_usable.load(std::memory_order_relaxed)) return nullptr;
  try {
    return call_meta(info, arguments, device, [&](torch::jit::Stack* stack) {
      info.meta->callBoxed(info.op, kMetaKeys, stack);
    });
  } catch (const c10::NotImplementedError&) {
    info.is_meta_usable.store(false, std::memory_order_relaxed);
    return nullptr;
  }
}

std::shared_ptr<const record::CallMetadata> guess_metadata(
    const OperatorInfo& info, std::span<const c10::IValue> arguments,
    c10::DeviceIndex device) {
  if (!info.op.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return nullptr;
  const PlainTorchFunction plain;
  try {
    return call_meta(info, arguments, device, [&](torch::jit::Stack* stack) {
      info.op.redispatchBoxed(kMetaKeys, stack);
    });
  } catch (const std::exception&) {
    return nullptr;  // the operator itself will tell what is wrong
  }
}

}  // namespace torch_openreg
