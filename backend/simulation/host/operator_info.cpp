#include "backend/simulation/host/operator_info.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "backend/pytorch/cpp_kernel.h"
#include "backend/pytorch/schema.h"
#include "backend/pytorch/tensor_lists.h"
#include "backend/simulation/host/executor.h"
#include "backend/simulation/record/writer.h"

namespace torch_openreg {

namespace {

template <size_t N>
bool contains(const std::array<std::string_view, N>& names,
              std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Operators whose results' sizes depend on data although no tag says so.
constexpr std::array<std::string_view, 9> kDataDependent = {
    "aten::_to_sparse", "aten::_to_sparse_csr", "aten::_to_sparse_csc",
    "aten::_to_sparse_bsr", "aten::_to_sparse_bsc",
    "aten::quantize_per_tensor_dynamic",
    "aten::_padded_dense_to_jagged_forward", "aten::_nested_tensor_from_mask",
    // Who asks for a check waits for its answer.
    "aten::_validate_compressed_sparse_indices"};

// Parts of the names of operators that refuse some data, zeros perhaps, and not
// by a LinAlgError.
constexpr std::array<std::string_view, 4> kRefusingData = {
    "segment_reduce", "_assert_async", "ctc_loss", "fake_quantize"};

// Operators that compute far more than they read.
constexpr std::array<std::string_view, 12> kHeavy = {
    "aten::convolution",
    "aten::convolution_backward",
    "aten::gru",
    "aten::rnn_tanh",
    "aten::rnn_relu",
    "aten::mkldnn_rnn_layer",
    "aten::mkldnn_rnn_layer_backward",
    "aten::_linalg_svd",
    "aten::linalg_eigh",
    "aten::_linalg_eigh",
    "aten::cdist",
    "aten::_cdist_forward"};

// The same, but as long as the products of matrices in them.
constexpr std::array<std::string_view, 7> kProducts = {
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::addmv",
    "aten::linear",
    "aten::_scaled_dot_product_flash_attention_for_cpu"};

// Operators that need arguments of sizes that follow from each other, or trust
// them to be: small ones would not.
constexpr std::array<std::string_view, 5> kSizedByEachOther = {
    "aten::avg_pool2d_backward", "aten::max_pool2d_with_indices_backward",
    "aten::mkldnn_rnn_layer_backward", "aten::native_group_norm",
    "aten::native_group_norm_backward"};

// Operators that take floats and give them; what oneDNN prepares for small ones
// would be for nothing.
constexpr std::array<std::string_view, 3> kOfFloats = {
    "aten::convolution", "aten::convolution_backward",
    "aten::mkldnn_rnn_layer_backward"};

// Operators whose numbers decide how large the result is.
constexpr std::array<std::string_view, 2> kSizedByNumbers = {"aten::arange",
                                                             "aten::range"};

// Integers that choose among a few ways.
constexpr std::array<std::string_view, 5> kModes = {
    "interpolation_mode", "mode", "normalization", "padding_mode", "reduction"};

// Operators whose Meta kernel in C++ was written beside the CPU's kernel; it
// may check less, or say something else.
constexpr std::array<std::string_view, 37> kOwnMeta = {
    "aten::__ilshift__",
    "aten::__irshift__",
    "aten::_add_relu_",
    "aten::_amp_update_scale_",
    "aten::_ctc_loss",
    "aten::_index_put_impl_",
    "aten::addbmm_",
    "aten::arange",
    "aten::bernoulli_",
    "aten::cauchy_",
    "aten::embedding_renorm_",
    "aten::exponential_",
    "aten::eye",
    "aten::fill_",
    "aten::floor_divide_",
    "aten::geometric_",
    "aten::hardswish_",
    "aten::hardtanh_",
    "aten::index_fill_",
    "aten::linalg_lu_solve",  // whose kernel leaves a conjugation undone
    "aten::linspace",
    "aten::log_normal_",
    "aten::logit_",
    "aten::logspace",
    "aten::masked_fill_",
    "aten::masked_scatter_",
    "aten::normal",
    "aten::normal_",
    "aten::put_",
    "aten::random_",
    "aten::range",
    "aten::relu_",
    "aten::resize_",
    "aten::rrelu_with_noise_",
    "aten::set_",
    "aten::uniform_",
    "aten::zero_"};

// Operators whose Meta kernel leaves out the memory format, which the CPU's
// kernel gives the output.
constexpr std::array<std::string_view, 8> kMetaWithoutFormat = {
    "aten::reflection_pad2d",  "aten::reflection_pad2d_backward",
    "aten::reflection_pad3d",  "aten::reflection_pad3d_backward",
    "aten::replication_pad2d", "aten::replication_pad2d_backward",
    "aten::replication_pad3d", "aten::replication_pad3d_backward"};

bool is_carryable_type(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return is_carryable_type(
          *type.expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ListType:
      return is_carryable_type(
          *type.expectRef<c10::ListType>().getElementType());
    case c10::TypeKind::TensorType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::GeneratorType:
      return true;
    default:
      return false;
  }
}

const c10::Type& without_optional(const c10::Type& type) {
  if (type.kind() != c10::TypeKind::OptionalType) return type;
  return *type.expectRef<c10::OptionalType>().getElementType();
}

bool is_number(const c10::Type& type) {
  return without_optional(type).kind() == c10::TypeKind::NumberType;
}

// A dtype, layout or memory format is a number to the schema, too.
bool is_enumeration(const c10::Argument& argument) {
  switch (without_optional(*argument.real_type()).kind()) {
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
      return true;
    case c10::TypeKind::IntType:
      return contains(kModes, argument.name());
    default:
      return false;
  }
}

// Whether the operator's Meta kernel in C++ is made from the same function as
// the CPU's kernel, which PyTorch calls structured. Those of other libraries
// are not known to be.
bool is_structured(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.starts_with("aten::") && !contains(kOwnMeta, name);
}

bool is_tensor_like(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::ListType) {
    return is_tensor_like(*type.expectRef<c10::ListType>().getElementType());
  }
  return type.kind() == c10::TypeKind::TensorType;
}

// What c10::toString() gives, without the stream that it is written to: there
// are some thousand operators at load.
std::string full_name(const c10::OperatorName& name) {
  if (name.overload_name.empty()) return name.name;
  return name.name + "." + name.overload_name;
}

bool has_mask(std::span<const c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (!argument.isOptionalTensorList()) continue;
    for (const auto& index : argument.toOptionalTensorVector()) {
      if (index.has_value() && index->defined() &&
          (index->scalar_type() == at::kBool ||
           index->scalar_type() == at::kByte)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool is_foreach(const c10::OperatorHandle& op) {
  return op.operator_name().name.starts_with("aten::_foreach_");
}

OperatorInfo::OperatorInfo(const c10::OperatorHandle& handle)
    : op(handle),
      name(full_name(handle.operator_name())),
      id(record::id_of(name)),
      rule(shapes::find_rule(handle.operator_name(), name)),
      meta(find_cpp_kernel(handle, c10::DispatchKey::Meta)),
      is_meta_usable(meta.has_value()) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& base = op.operator_name().name;
  if (contains(kMetaWithoutFormat, base)) is_meta_usable = false;
  for (const c10::Argument& argument : schema.arguments()) {
    written.push_back(is_written(argument));
    writes = writes || written.back();
    has_out = has_out || argument.is_out();
    is_carryable = is_carryable && is_carryable_type(*argument.type());
    takes_number.push_back(is_number(*argument.type()));
    if (is_enumeration(argument)) enumerations.push_back(written.size() - 1);
    if (argument.name() == "generator") {
      generator = static_cast<int>(written.size()) - 1;
    }
  }
  for (const c10::Argument& returned : schema.returns()) {
    aliased.push_back(aliased_argument(schema, returned));
    returns_new = returns_new || aliased.back() < 0;
    is_carryable = is_carryable && is_carryable_type(*returned.type());
    // Foreach operators in place return nothing; others return tensors.
    if (!is_tensor_like(*returned.type())) is_synchronous = true;
  }
  gives_one_tensor =
      aliased.size() == 1 && returns_new &&
      schema.returns()[0].type()->kind() == c10::TypeKind::TensorType;
  is_carryable = is_carryable && !schema.is_vararg() && !schema.is_varret();
  may_refuse_data =
      std::ranges::any_of(kRefusingData, [&](std::string_view part) {
        return base.find(part) != std::string::npos;
      });
  numbers_are_apart =
      op.hasTag(at::Tag::pointwise) ||
      (base.starts_with("aten::") && !contains(kSizedByNumbers, base));
  takes_host_indices = may_take_host_indices(op);
  has_same_meta = is_meta_usable && !has_out && is_structured(op);
  can_be_small = (has_same_meta || rule != nullptr || !writes) &&
                 !contains(kSizedByEachOther, base);
  gives_floats = rule != nullptr && contains(kOfFloats, base);
  takes_optionals = takes_optional_tensors(schema);
  is_product = contains(kProducts, base);
  is_heavy = is_product || contains(kHeavy, base);
  is_synchronous = is_synchronous || contains(kDataDependent, base) ||
                   ((op.hasTag(at::Tag::data_dependent_output) ||
                     op.hasTag(at::Tag::dynamic_output_shape)) &&
                    !takes_host_indices);
}

bool OperatorInfo::ask_for_it(c10::DeviceIndex device, uint64_t bit) const {
  if (!has_operator(device, id)) return false;
  known_on.fetch_or(bit, std::memory_order_relaxed);
  return true;
}

// Indexing is tagged, but only a mask makes it data-dependent: it decides how
// many elements are read, or whether so many values are what is to be written.
bool OperatorInfo::needs_data(std::span<const c10::IValue> arguments) const {
  if (is_synchronous || gives_composites.load(std::memory_order_relaxed)) {
    return true;
  }
  if (!takes_host_indices || !has_mask(arguments)) return false;
  return !written[0] || arguments[2].toTensor().numel() != 1;
}

}  // namespace torch_openreg
