// From launch records to ATen's arguments.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <utility>
#include <vector>

#include "backend/simulation/common/composites.h"
#include "backend/simulation/record/reader.h"
#include "openreg/kernel.h"

namespace torch_openreg::device {

// Rebuilds the arguments of a call as CPU tensors over device memory: storages
// that are one in the record are one here, and so are tensors. Not
// thread-safe.
class Decoder {
 public:
  // With `resizable`, a kernel may resize the tensors; they get memory of the
  // host then.
  Decoder(orKernelContext* ctx, record::Reader& reader, bool resizable)
      : ctx_(ctx),
        reader_(reader),
        resizable_(resizable),
        storages_(reader.header().storage_count) {}

  // Pushes all arguments. Throws std::invalid_argument for a malformed record
  // and IllegalAddress for memory that the kernel may not use.
  void push_arguments(torch::jit::Stack& stack);

  // A new tensor.
  at::Tensor tensor(const record::TensorView& view);
  // Where an output goes: its storage, which it starts and which holds it.
  void* data_of(const record::TensorView& view);

  // Whether an argument was a composite: its kernel is not among those of
  // dense tensors.
  bool has_composites() const { return !composites_.empty(); }

 private:
  struct Slot {
    void* data = nullptr;
    bool is_translated = false;
    c10::Storage storage;
  };

  void* translate(uint32_t index);
  // The tensor of an argument: a new one, or the earlier one that it is.
  at::Tensor argument_tensor(const record::TensorView& view);
  c10::IValue value(const record::Argument& argument);
  at::Tensor next_tensor();
  at::Tensor composite(record::Composite kind);
  c10::IValue tensor_list(uint32_t length);
  c10::IValue optional_tensor_list(uint32_t length);
  c10::IValue scalar_list(uint32_t length);
  const c10::Storage& storage(uint32_t index);

  orKernelContext* const ctx_;
  record::Reader& reader_;
  const bool resizable_;
  c10::SmallVector<Slot, 8> storages_;
  c10::SmallVector<at::Tensor, 8> tensors_;               // of arguments
  std::vector<std::pair<Parts, at::Tensor>> composites_;  // so far
};

// The driver has been told.
struct IllegalAddress {};

// Whether the number is a dtype.
inline bool is_dtype(int64_t number) {
  return number >= 0 &&
         number < static_cast<int64_t>(c10::ScalarType::Undefined);
}

}  // namespace torch_openreg::device
