// Calls that a thread has run lately, ready to be run again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <span>
#include <vector>

#include "backend/simulation/device/direct_call.h"
#include "backend/simulation/record/reader.h"
#include "openreg/kernel.h"

namespace torch_openreg::device {

// Note [Prepared calls]
// Small operators come again and again with arguments of the same kind, and to
// make tensors for them costs as much as to run them. So a thread keeps the
// tensors of the calls that it ran last, once it has seen one twice: what comes
// only once would cost more and drive out what comes again. A call whose
// arguments are the same words (sizes, strides, dtypes, flags, integers; not
// addresses, offsets and values) gets the same tensors, bound to its own
// storages. A kernel that keeps one of them has it for itself: the call is
// forgotten. Where the operator has an out= kernel, the output is kept as well
// (see DirectCall), and neither a tensor nor a stack is made.

// The arguments of one such call. A thread's own.
class PreparedCall {
 public:
  // The call of this thread that fits the record; null if there is none.
  static PreparedCall* find(const record::Reader& reader);

  // Keeps the arguments, as they were decoded from the record and before a
  // kernel has had them, for the next call; not if they are of a kind that
  // can't be bound again, or that comes for the first time. With `direct`,
  // which outlives it, the next call goes that way.
  static void keep(const record::Reader& reader,
                   const torch::jit::Stack& arguments,
                   const DirectCall* direct);

  // Binds the tensors to the storages of the record and takes its values.
  // Returns false if a tensor does not fit into its storage. Throws
  // IllegalAddress for memory that the kernel may not use.
  bool bind(orKernelContext* ctx, const record::Reader& reader);

  // What was bound: for a direct call, or for any other kind.
  const torch::jit::Stack& arguments() const { return arguments_; }
  bool is_direct() const { return direct_ != nullptr; }
  void run_direct();

  // To be called when the kernel has run and its stack is gone.
  void release();

 private:
  struct BoundTensor {
    c10::TensorImpl* impl;
    uint32_t storage;
    uint64_t extent;  // in elements, from its offset
    uint32_t users;   // how many arguments it is
    bool is_same;     // an earlier one of these
  };
  struct BoundStorage {
    c10::StorageImpl* impl;
    uint32_t users;
  };
  // An argument whose value is apart from the words: a number, or the tensor of
  // a host value.
  struct BoundValue {
    size_t argument;
    record::Tag tag;        // kFloat, kInt or kHostValue
    c10::TensorImpl* impl;  // or null
  };

  bool has_tables_of(const record::Reader& reader) const;
  bool prepare(const record::Reader& reader,
               const torch::jit::Stack& arguments);
  bool prepare_argument(size_t index, const record::Argument& described,
                        record::Reader& rest);
  bool prepare_list(const c10::IValue& list, uint32_t length,
                    record::Reader& rest);
  bool prepare_output(record::Reader& reader);
  void add_tensor(const at::Tensor& tensor, const record::TensorView& view);
  bool bind_tensor(const BoundTensor& tensor, int64_t offset,
                   const record::Reader& reader);
  void bind_values(std::span<const record::Word> words);
  bool is_shared() const;
  bool has_output_as_expected() const;

  uint64_t operator_id_ = 0;
  uint16_t flags_ = 0;
  uint32_t argument_count_ = 0;
  uint32_t output_count_ = 0;
  uint32_t storage_count_ = 0;
  uint32_t offset_words_ = 0;
  uint32_t value_words_ = 0;
  std::vector<record::Word> words_;         // of the arguments
  std::vector<record::Word> output_words_;  // of the outputs
  const DirectCall* direct_ = nullptr;
  torch::jit::Stack arguments_;
  at::Tensor out_;  // of a direct call
  c10::SmallVector<int64_t, 4> out_sizes_;
  c10::SmallVector<BoundTensor, 4> tensors_;    // of the arguments, then `out_`
  c10::SmallVector<BoundStorage, 4> storages_;  // by their numbers
  c10::SmallVector<BoundValue, 2> values_;
};

}  // namespace torch_openreg::device
