#include "backend/simulation/common/copy_record.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace torch_openreg {

namespace {

// No tensor has 2^64 elements.
constexpr size_t kMaxDimensions = 64;

// The dimensions of size 1 are left out: they say nothing, and only without
// them is the number of dimensions limited.
void append(CopyRecord& record, const at::TensorBase& tensor, void* data) {
  const int64_t flags =
      (tensor.is_conj() ? int64_t{TensorRecord::kConjugate} : 0) |
      (tensor.is_neg() ? int64_t{TensorRecord::kNegative} : 0);
  record.push_back(reinterpret_cast<int64_t>(data));
  record.push_back(static_cast<int64_t>(tensor.scalar_type()));
  record.push_back(flags);
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
  if (dimensions > kMaxDimensions) return false;
  if (words.size() < 4 + 2 * dimensions) return false;
  tensor->data = words[0];
  tensor->dtype = words[1];
  tensor->flags = words[2];
  tensor->sizes = words.subspan(4, dimensions);
  tensor->strides = words.subspan(4 + dimensions, dimensions);
  words = words.subspan(4 + 2 * dimensions);
  const auto is_negative = [](int64_t number) { return number < 0; };
  constexpr int64_t kFlags = TensorRecord::kConjugate | TensorRecord::kNegative;
  return tensor->dtype >= 0 &&
         tensor->dtype < static_cast<int64_t>(c10::ScalarType::Undefined) &&
         (tensor->flags & ~kFlags) == 0 &&
         std::ranges::none_of(tensor->sizes, is_negative) &&
         std::ranges::none_of(tensor->strides, is_negative);
}

}  // namespace

CopyRecord encode_copy(const at::TensorBase& dst, const at::TensorBase& src,
                       uint64_t settings) {
  CopyRecord record;
  append(record, dst, dst.mutable_data_ptr());
  append(record, src, const_cast<void*>(src.const_data_ptr()));
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

bool extent_of(const TensorRecord& tensor, size_t itemsize, size_t* bytes) {
  size_t last = 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    const auto size = static_cast<size_t>(tensor.sizes[i]);
    if (size == 0) {
      *bytes = 0;
      return true;
    }
    size_t step = 0;
    if (__builtin_mul_overflow(size - 1, static_cast<size_t>(tensor.strides[i]),
                               &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return false;
    }
  }
  return !__builtin_add_overflow(last, size_t{1}, &last) &&
         !__builtin_mul_overflow(last, itemsize, bytes);
}

}  // namespace torch_openreg
