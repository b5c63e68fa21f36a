#include "backend/simulation/common/copy_record.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend/simulation/common/lazy_flags.h"
#include "backend/simulation/record/extent.h"
#include "backend/simulation/record/format.h"

namespace torch_openreg {

namespace {

// The dimensions of size 1 are left out: they say nothing, and only without
// them is the number of dimensions limited.
void append(CopyRecord& record, const at::Tensor& tensor, const void* data) {
  record.push_back(reinterpret_cast<int64_t>(data));
  record.push_back(static_cast<int64_t>(tensor.scalar_type()));
  record.push_back(lazy_flags(tensor));
  const at::IntArrayRef sizes = tensor.sizes();
  const auto is_kept = [](int64_t size) { return size != 1; };
  record.push_back(std::ranges::count_if(sizes, is_kept));
  std::ranges::copy_if(sizes, std::back_inserter(record), is_kept);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (is_kept(sizes[i])) record.push_back(tensor.strides()[i]);
  }
}

// Takes one tensor from the front of `words`.
bool take(std::span<const int64_t>& words, TensorRecord* tensor) {
  if (words.size() < 4) return false;
  const auto dimensions = static_cast<uint64_t>(words[3]);
  if (dimensions > record::kMaxDimensions) return false;
  if (words.size() < 4 + 2 * dimensions) return false;
  constexpr int64_t kFlags = record::kConjugate | record::kNegative;
  constexpr auto kDtypes = static_cast<int64_t>(c10::ScalarType::Undefined);
  if (words[1] < 0 || words[1] >= kDtypes || (words[2] & ~kFlags) != 0) {
    return false;
  }
  tensor->data = words[0];
  tensor->dtype = static_cast<c10::ScalarType>(words[1]);
  tensor->flags = static_cast<uint8_t>(words[2]);
  tensor->sizes = words.subspan(4, dimensions);
  tensor->strides = words.subspan(4 + dimensions, dimensions);
  words = words.subspan(4 + 2 * dimensions);
  const auto extent = record::extent_of(tensor->sizes, tensor->strides);
  tensor->extent = extent.value_or(0);
  return extent.has_value();
}

}  // namespace

CopyRecord encode_copy(const at::Tensor& dst, const at::Tensor& src,
                       uint64_t settings) {
  CopyRecord record;
  append(record, dst, dst.mutable_data_ptr());
  append(record, src, src.const_data_ptr());
  record.push_back(static_cast<int64_t>(settings));
  return record;
}

bool decode_copy(std::span<const int64_t> words, TensorRecord* dst,
                 TensorRecord* src, uint64_t* settings) {
  if (!take(words, dst) || !take(words, src) || words.size() != 1 ||
      !std::ranges::equal(dst->sizes, src->sizes)) {
    return false;
  }
  *settings = static_cast<uint64_t>(words[0]);
  return true;
}

}  // namespace torch_openreg
