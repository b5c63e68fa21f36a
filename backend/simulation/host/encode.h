// From an operator's arguments to a launch record.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymIntArrayRef.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "backend/simulation/host/executor.h"
#include "backend/simulation/host/operator_info.h"
#include "backend/simulation/record/writer.h"

namespace torch_openreg {

// The arguments of one call. Not thread-safe.
class Encoder {
 public:
  explicit Encoder(const OperatorInfo& info)
      : writer_(/*values_apart=*/info.numbers_are_apart), info_(info) {}

  // Writes all arguments. Returns false if a record can't carry them. Throws
  // PyTorch's error for tensors on different devices, or a generator of
  // another kind of device. Indices on the host are moved to the device, in
  // `arguments`.
  bool encode(std::span<c10::IValue> arguments);

  // The same for tensors and numbers that the operator only reads; composites
  // among them are not for this.
  template <typename... Arguments>
  bool encode_unboxed(const Arguments&... arguments) {
    return (is_on_device(arguments) || ...) && (add(arguments) && ...) &&
           !has_composites_;
  }

  // The same for an operator that writes its first argument.
  template <typename... Arguments>
  bool encode_in_place(const at::Tensor& self, const Arguments&... arguments) {
    return find_device(self) && add_tensor(self, true) &&
           (add(arguments) && ...) && !has_composites_;
  }

  record::Writer& writer() { return writer_; }
  // Where the operator runs.
  c10::DeviceIndex device() const { return device_; }
  // Whether an argument is a sparse, nested or quantized tensor.
  bool has_composites() const { return has_composites_; }
  // Whether an argument is a tensor of the device.
  bool has_tensors() const { return !tensors_.empty(); }
  // The bytes of the largest argument or output. A list of tensors is one
  // argument: the operator works on all of them.
  size_t largest_bytes() const { return largest_; }
  void note_output(size_t bytes) {
    outputs_ += bytes;
    note_bytes(bytes);
  }
  // How long the operator takes.
  Length length() const {
    return length_of(largest_, info_.is_heavy && !is_with_vector());
  }

 private:
  void note_bytes(size_t bytes) { largest_ = std::max(largest_, bytes); }
  // Whether so little comes out of a product that its factors are read about
  // once, as by a token that is generated. With more threads, waking them takes
  // as long as waking the device's.
  bool is_with_vector() const {
    constexpr size_t kVectorBytes = 4096;
    return info_.is_product && outputs_ > 0 && outputs_ <= kVectorBytes &&
           at::get_num_threads() == 1;
  }
  bool find_device(std::span<const c10::IValue> arguments);
  bool find_device(const at::Tensor& tensor);
  bool is_on_device(const at::Tensor& tensor) { return find_device(tensor); }
  bool is_on_device(const at::ITensorListRef& tensors) {
    for (const at::Tensor& tensor : tensors) {
      if (find_device(tensor)) return true;
    }
    return false;
  }
  template <typename Other>
  bool is_on_device(const Other& /*no tensor*/) {
    return false;
  }
  bool add(const at::Tensor& tensor) { return add_tensor(tensor, false); }
  bool add(const at::Scalar& number);
  bool add(int64_t number) {
    writer_.add_int(number);
    return true;
  }
  bool add(bool value) {
    writer_.add_bool(value);
    return true;
  }
  bool add(at::ScalarType dtype) { return add(static_cast<int64_t>(dtype)); }
  bool add(at::IntArrayRef numbers) {
    writer_.add_ints(numbers);
    return true;
  }
  bool add(c10::SymIntArrayRef numbers) {
    const auto known = c10::asIntArrayRefSlowOpt(numbers);
    return known.has_value() && add(*known);
  }
  bool add(double number) {
    writer_.add_number(number);
    return true;
  }
  bool add(std::string_view text) {
    writer_.add_string(text);
    return true;
  }
  bool add(const at::ITensorListRef& tensors);
  bool add(at::OptionalIntArrayRef numbers) {
    return numbers.has_value() ? add(*numbers) : add_none();
  }
  template <typename Value>
  bool add(const std::optional<Value>& value) {
    return value.has_value() ? add(*value) : add_none();
  }
  bool add_none() {
    writer_.add_none();
    return true;
  }
  bool add(c10::IValue& value, size_t index);
  bool add_tensor(const at::Tensor& tensor, bool is_written);
  // Whether `tensor` is an argument that was added before.
  bool is_known(const at::Tensor& tensor);
  bool add_composite(const at::Tensor& tensor, bool is_written);
  bool add_host_tensor(const at::Tensor& tensor);
  bool add_list(c10::IValue& value, size_t index);
  template <typename List>
  bool add_tensors(const List& tensors, bool is_written);
  void add_generator(const c10::IValue& value);
  bool is_host_index(const at::Tensor& tensor) const;
  // Throws the error for a tensor that is not where the operator runs.
  [[noreturn]] void refuse(const at::Tensor& tensor) const;

  record::Writer writer_;
  const OperatorInfo& info_;
  c10::DeviceIndex device_ = -1;
  size_t largest_ = 0;
  size_t total_ = 0;    // bytes of all arguments so far
  size_t outputs_ = 0;  // and of outputs
  c10::SmallVector<const c10::TensorImpl*, 8> tensors_;
  bool has_composites_ = false;
};

}  // namespace torch_openreg
