#include "backend/simulation/common/composites.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

#include <algorithm>
#include <utility>

#include "backend/simulation/record/extent.h"

namespace torch_openreg {

namespace {

using record::Composite;

// Of a tensor on the same device as `like`.
c10::DispatchKeySet keys(const at::Tensor& like, c10::DispatchKey on_cpu,
                         c10::DispatchKey on_device) {
  return c10::DispatchKeySet(like.is_cpu() ? on_cpu : on_device);
}

// Throws unless a tensor of these sizes stays within `capacity` elements.
void check_extent(at::IntArrayRef sizes, at::IntArrayRef strides,
                  int64_t offset, uint64_t capacity) {
  TORCH_CHECK(sizes.size() == strides.size(),
              "the sizes and strides of a composite don't match");
  const auto extent = record::extent_of(sizes, strides);
  TORCH_CHECK(
      extent.has_value() && record::lies_within(*extent, offset, 1, capacity),
      "a composite is larger than its memory");
}

// --- Sparse ---

std::optional<Composite> compressed_kind(at::Layout layout) {
  switch (layout) {
    case at::kSparseCsr:
      return Composite::kCsr;
    case at::kSparseCsc:
      return Composite::kCsc;
    case at::kSparseBsr:
      return Composite::kBsr;
    case at::kSparseBsc:
      return Composite::kBsc;
    default:
      return std::nullopt;
  }
}

at::Layout layout_of(Composite kind) {
  switch (kind) {
    case Composite::kCsr:
      return at::kSparseCsr;
    case Composite::kCsc:
      return at::kSparseCsc;
    case Composite::kBsr:
      return at::kSparseBsr;
    default:
      return at::kSparseBsc;
  }
}

at::SparseCsrTensorImpl& compressed_impl(const at::Tensor& tensor) {
  return *static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

Parts take_coo_apart(const at::Tensor& tensor) {
  const auto& impl =
      *static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
  return {Composite::kCoo,
          {tensor.sizes(), impl.coalesced(), impl.indices(), impl.values()}};
}

Parts take_compressed_apart(const at::Tensor& tensor, Composite kind) {
  const at::SparseCsrTensorImpl& impl = compressed_impl(tensor);
  return {kind,
          {tensor.sizes(), impl.compressed_indices(), impl.plain_indices(),
           impl.values()}};
}

at::Tensor put_coo_together(const Parts& parts) {
  const auto sizes = parts.values[0].toIntVector();
  const at::Tensor& indices = parts.values[2].toTensor();
  const at::Tensor& values = parts.values[3].toTensor();
  TORCH_CHECK(indices.dim() == 2 && values.dim() > 0,
              "a sparse tensor of parts that don't match");
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      indices.size(0), values.dim() - 1, sizes, indices, values,
      values.options().layout(at::kSparse), parts.values[1].toBool());
}

// The kernels rely on what is checked here.
void check_compressed(at::Layout layout, at::IntArrayRef sizes,
                      const at::Tensor& compressed, const at::Tensor& plain,
                      const at::Tensor& values) {
  const int64_t batch = compressed.dim() - 1;
  const bool is_blocked = layout == at::kSparseBsr || layout == at::kSparseBsc;
  const bool by_rows = layout == at::kSparseCsr || layout == at::kSparseBsr;
  const auto count = static_cast<int64_t>(sizes.size());
  const int64_t dense = values.dim() - batch - 1 - (is_blocked ? 2 : 0);
  TORCH_CHECK(batch >= 0 && plain.dim() == batch + 1 && dense >= 0 &&
                  count == batch + 2 + dense,
              "a compressed tensor of parts that don't match");
  const int64_t axis = by_rows ? batch : batch + 1;
  const int64_t block =
      is_blocked
          ? std::max<int64_t>(1, values.size(by_rows ? batch + 1 : batch + 2))
          : 1;
  TORCH_CHECK(
      compressed.size(batch) == sizes[static_cast<size_t>(axis)] / block + 1 &&
          plain.size(batch) == values.size(batch) &&
          plain.sizes().slice(0, static_cast<size_t>(batch)) ==
              compressed.sizes().slice(0, static_cast<size_t>(batch)) &&
          plain.scalar_type() == compressed.scalar_type(),
      "a compressed tensor of parts that don't match");
}

at::Tensor put_compressed_together(const Parts& parts) {
  const auto sizes = parts.values[0].toIntVector();
  const at::Tensor& compressed = parts.values[1].toTensor();
  const at::Tensor& plain = parts.values[2].toTensor();
  const at::Tensor& values = parts.values[3].toTensor();
  at::Tensor tensor = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      keys(values, c10::DispatchKey::SparseCsrCPU,
           c10::DispatchKey::SparseCsrPrivateUse1),
      values.device(), layout_of(parts.kind), values.dtype());
  compressed_impl(tensor).set_member_tensors(compressed, plain, values,
                                             at::IntArrayRef(sizes));
  return tensor;
}

// --- Nested ---

// PyTorch describes a nested tensor without tensors by a single number.
constexpr int64_t kNoTensors = -1;

at::IntArrayRef numbers_of(const at::Tensor& matrix) {
  return {matrix.const_data_ptr<int64_t>(),
          static_cast<size_t>(matrix.numel())};
}

Parts take_nested_apart(const at::Tensor& tensor) {
  const auto& impl = *at::native::get_nested_tensor_impl(tensor);
  const at::Tensor sizes = impl.get_nested_sizes().contiguous();
  const at::Tensor strides = impl.get_nested_strides().contiguous();
  const at::Tensor offsets = impl.get_storage_offsets().contiguous();
  const int64_t dimensions = sizes.dim() == 2 ? sizes.size(1) : kNoTensors;
  return {Composite::kNested,
          {impl.get_unsafe_storage_as_tensor(), dimensions, numbers_of(sizes),
           numbers_of(strides), numbers_of(offsets)}};
}

at::Tensor matrix_of(at::IntArrayRef numbers, at::IntArrayRef sizes) {
  at::Tensor matrix = at::empty(sizes, at::dtype(at::kLong));
  std::ranges::copy(numbers, matrix.mutable_data_ptr<int64_t>());
  return matrix;
}

at::Tensor put_nested_together(const Parts& parts) {
  const at::Tensor& buffer = parts.values[0].toTensor();
  const int64_t dimensions = parts.values[1].toInt();
  const auto sizes = parts.values[2].toIntVector();
  const auto strides = parts.values[3].toIntVector();
  const auto offsets = parts.values[4].toIntVector();
  const auto count = static_cast<int64_t>(offsets.size());
  if (dimensions == kNoTensors) {
    const at::Tensor one = at::ones({}, at::dtype(at::kLong));
    return at::detail::make_tensor<at::native::NestedTensorImpl>(
        buffer, one, one, matrix_of({}, {0}));
  }
  TORCH_CHECK(dimensions >= 0 && dimensions <= record::kMaxDimensions &&
                  sizes.size() == offsets.size() * dimensions &&
                  strides.size() == sizes.size() && buffer.dim() == 1,
              "a nested tensor of parts that don't match");
  const auto width = static_cast<size_t>(dimensions);
  for (size_t i = 0; i < offsets.size(); ++i) {
    check_extent(at::IntArrayRef(sizes).slice(i * width, width),
                 at::IntArrayRef(strides).slice(i * width, width), offsets[i],
                 static_cast<uint64_t>(buffer.numel()));
  }
  return at::detail::make_tensor<at::native::NestedTensorImpl>(
      buffer, matrix_of(sizes, {count, dimensions}),
      matrix_of(strides, {count, dimensions}), matrix_of(offsets, {count}));
}

// --- Quantized ---

// All of the storage: some dtypes have several elements in a byte.
at::Tensor bytes_of(const at::Tensor& tensor) {
  at::Tensor bytes = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()),
      keys(tensor, c10::DispatchKey::CPU, c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(at::kByte));
  bytes.unsafeGetTensorImpl()->set_sizes_contiguous(
      {static_cast<int64_t>(tensor.storage().nbytes())});
  return bytes;
}

Parts take_quantized_apart(const at::Tensor& tensor) {
  Parts parts{
      Composite::kQuantized,
      {bytes_of(tensor), tensor.sizes(), tensor.strides(),
       tensor.storage_offset(), static_cast<int64_t>(tensor.scalar_type())}};
  const at::QuantizerPtr quantizer = at::get_qtensorimpl(tensor)->quantizer();
  if (const auto* const one =
          dynamic_cast<const at::PerTensorAffineQuantizer*>(quantizer.get())) {
    parts.kind = Composite::kPerTensor;
    parts.values.emplace_back(one->scale());
    parts.values.emplace_back(one->zero_point());
  } else if (const auto* const many =
                 dynamic_cast<const at::PerChannelAffineQuantizer*>(
                     quantizer.get())) {
    parts.kind = Composite::kPerChannel;
    parts.values.emplace_back(many->axis());
    parts.values.emplace_back(many->scales().to(tensor.device()));
    parts.values.emplace_back(many->zero_points().to(tensor.device()));
  }
  return parts;
}

size_t elements_per_byte(at::ScalarType dtype) {
  if (dtype == at::kQUInt4x2) return 2;
  return dtype == at::kQUInt2x4 ? 4 : 1;
}

at::QuantizerPtr quantizer_of(const Parts& parts, at::ScalarType dtype) {
  if (parts.kind == Composite::kPerTensor) {
    return at::make_per_tensor_affine_quantizer(parts.values[5].toDouble(),
                                                parts.values[6].toInt(), dtype);
  }
  if (parts.kind == Composite::kPerChannel) {
    return at::make_per_channel_affine_quantizer(
        parts.values[6].toTensor(), parts.values[7].toTensor(),
        parts.values[5].toInt(), dtype);
  }
  return at::make_unknown_quantizer(dtype);
}

// Of a tensor with a scale for each of its slices.
void check_channels(const Parts& parts, at::IntArrayRef sizes) {
  const int64_t axis = parts.values[5].toInt();
  TORCH_CHECK(axis >= 0 && axis < static_cast<int64_t>(sizes.size()) &&
                  parts.values[6].toTensor().numel() == sizes[axis] &&
                  parts.values[7].toTensor().numel() == sizes[axis],
              "a quantized tensor of parts that don't match");
}

at::Tensor put_quantized_together(const Parts& parts) {
  const at::Tensor& bytes = parts.values[0].toTensor();
  const auto sizes = parts.values[1].toIntVector();
  const auto strides = parts.values[2].toIntVector();
  const int64_t offset = parts.values[3].toInt();
  const int64_t number = parts.values[4].toInt();
  const auto dtype = static_cast<at::ScalarType>(number);
  TORCH_CHECK(number == static_cast<int64_t>(dtype) && c10::isQIntType(dtype),
              "a quantized tensor of no such dtype");
  check_extent(sizes, strides, offset,
               bytes.storage().nbytes() / c10::elementSize(dtype) *
                   elements_per_byte(dtype));
  if (parts.kind == Composite::kPerChannel) check_channels(parts, sizes);
  at::Tensor tensor = at::detail::make_tensor<at::QTensorImpl>(
      c10::Storage(bytes.storage()),
      keys(bytes, c10::DispatchKey::QuantizedCPU,
           c10::DispatchKey::QuantizedPrivateUse1),
      c10::scalarTypeToTypeMeta(dtype), quantizer_of(parts, dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

bool are_same(const c10::IValue& a, const c10::IValue& b) {
  if (!a.isTensor()) return a == b;
  const at::Tensor& x = a.toTensor();
  const at::Tensor& y = b.toTensor();
  return x.const_data_ptr() == y.const_data_ptr() && x.dtype() == y.dtype() &&
         x.sizes() == y.sizes() && x.strides() == y.strides() &&
         x.is_conj() == y.is_conj() && x.is_neg() == y.is_neg();
}

}  // namespace

std::optional<Parts> take_apart(const at::Tensor& tensor) {
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch()) return std::nullopt;
  if (tensor.is_nested()) {
    if (tensor.layout() != at::kStrided) return std::nullopt;
    return take_nested_apart(tensor);
  }
  if (tensor.is_quantized()) return take_quantized_apart(tensor);
  if (tensor.layout() == at::kSparse) return take_coo_apart(tensor);
  if (const auto kind = compressed_kind(tensor.layout())) {
    return take_compressed_apart(tensor, *kind);
  }
  return std::nullopt;
}

void check_shapes(const Parts& parts) {
  // The others are checked where they are put together.
  if (record::parts_of(parts.kind).data() != record::parts::kCompressed) return;
  check_compressed(layout_of(parts.kind), parts.values[0].toIntVector(),
                   parts.values[1].toTensor(), parts.values[2].toTensor(),
                   parts.values[3].toTensor());
}

at::Tensor put_together(const Parts& parts) {
  switch (parts.kind) {
    case Composite::kCoo:
      return put_coo_together(parts);
    case Composite::kNested:
      return put_nested_together(parts);
    case Composite::kQuantized:
    case Composite::kPerTensor:
    case Composite::kPerChannel:
      return put_quantized_together(parts);
    default:
      return put_compressed_together(parts);
  }
}

bool are_same(const Parts& a, const Parts& b) {
  return a.kind == b.kind &&
         std::ranges::equal(a.values, b.values,
                            [](const c10::IValue& x, const c10::IValue& y) {
                              return are_same(x, y);
                            });
}

void assign(const at::Tensor& tensor, const at::Tensor& fresh) {
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_nested(),
                              "a nested tensor cannot be resized");
  if (!compressed_kind(tensor.layout()).has_value()) {
    tensor.unsafeGetTensorImpl()->shallow_copy_from(fresh.getIntrusivePtr());
    return;
  }
  const at::SparseCsrTensorImpl& from = compressed_impl(fresh);
  compressed_impl(tensor).set_member_tensors(from.compressed_indices(),
                                             from.plain_indices(),
                                             from.values(), fresh.sizes());
}

}  // namespace torch_openreg
