// Calls that a thread has run lately, ready to be run again.
#pragma once

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <vector>

#include "backend/record/reader.h"
#include "openreg/kernel.h"

namespace torch_openreg {

// Note [Prepared calls]
// Small operators come again and again with arguments of the same kind, and to
// make tensors for them costs as much as to run them. So a thread keeps the
// tensors of the calls that it ran last. A call whose arguments are the same
// words (sizes, strides, dtypes, flags, integers; not addresses, offsets and
// values) gets the same tensors, bound to its own storages. A kernel that keeps
// one of them has it for itself: the call is forgotten.

// The arguments of one such call. A thread's own.
class PreparedCall {
 public:
  // The call of this thread that fits the record; null if there is none.
  static PreparedCall* find(const record::Reader& reader);

  // Keeps the arguments, as they were decoded from the record and before a
  // kernel has had them, for the next call; not if they are of a kind that
  // can't be bound again.
  static void keep(const record::Reader& reader,
                   const torch::jit::Stack& arguments);

  // Binds the tensors to the storages of the record and pushes the arguments.
  // Returns false if a tensor does not fit into its storage. Throws
  // IllegalAddress for memory that the kernel may not use.
  bool push_arguments(orKernelContext* ctx, const record::Reader& reader,
                      torch::jit::Stack& stack);

  // To be called when the kernel has run and its stack is gone.
  void release();

 private:
  struct BoundTensor {
    c10::TensorImpl* impl;
    uint32_t storage;
    uint64_t extent;  // in elements, from its offset
  };
  struct BoundStorage {
    c10::StorageImpl* impl;
    uint32_t users;
  };

  bool prepare(const record::Reader& reader,
               const torch::jit::Stack& arguments);
  bool bind(const c10::IValue& argument, const record::Argument& described);
  bool bind_tensor(const at::Tensor& tensor, const record::TensorView& view);
  bool is_shared() const;

  uint64_t operator_id_ = 0;
  uint16_t flags_ = 0;
  std::vector<record::Word> words_;
  torch::jit::Stack arguments_;
  c10::SmallVector<BoundTensor, 4> tensors_;
  c10::SmallVector<BoundStorage, 4> storages_;  // by their numbers
};

}  // namespace torch_openreg
