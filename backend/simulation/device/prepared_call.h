// Calls that a thread has run lately, ready to be run again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/simulation/device/direct_call.h"
#include "backend/simulation/record/reader.h"
#include "openreg/kernel.h"

namespace torch_openreg::device {

// One output as the record wants it.
struct Expected {
  record::TensorView view;
  void* data;
};
using ExpectedVector = c10::SmallVector<Expected, 4>;

// Note [Prepared calls]
// Small operators come again and again with arguments of the same kind, and to
// make tensors for them costs as much as to run them. So a thread keeps the
// tensors of the calls that it ran last. A call whose arguments are the same
// words (sizes, strides, dtypes, flags, integers; not addresses, offsets and
// values) gets the same tensors, bound to its own storages. A kernel that keeps
// one of them has it for itself: the call is forgotten. Where the operator has
// an out= kernel, the output is kept as well (see DirectCall), and neither a
// tensor nor a stack is made. Of other outputs it is known what they look like.
//
// Of each operator one call more is kept, the spare: calls that differ from it
// in sizes and strides alone give its tensors theirs. It serves what does not
// come again, as a text that grows, and what has not come often yet; then it
// stays what it is, and the next call makes a new spare. What no spare fits is
// kept once it was seen twice: what comes only once would cost more and drive
// out what comes again.

// The arguments of one such call. A thread's own.
class PreparedCall {
 public:
  // A call of this thread that fits the record, which nobody has read from, or
  // was made to; null if there is none.
  static PreparedCall* find(const record::Reader& reader);

  // Keeps the arguments, as they were decoded from the record and before a
  // kernel has had them, for other calls; not if they are of a kind that can't
  // be bound again, or if it is too early. With `direct`, which outlives it,
  // the next call goes that way.
  static void keep(const record::Reader& reader,
                   const torch::jit::Stack& arguments,
                   const DirectCall* direct);

  // Binds the tensors to the storages of the record and takes its values.
  // Returns false if a tensor does not fit into its storage. Throws
  // IllegalAddress for memory that the kernel may not use.
  bool bind(orKernelContext* ctx, const record::Reader& reader);

  // What was bound: for a direct call, or for any other kind. The outputs last
  // as long as the call.
  const torch::jit::Stack& arguments() const { return arguments_; }
  const ExpectedVector& outputs() const { return outputs_; }
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
    // Where the words of an argument have its sizes, which its strides follow.
    size_t shape;
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
  bool fits(const record::Reader& reader) const;
  bool differs_in_shapes(const record::Reader& reader) const;
  bool reshape(const record::Reader& reader);
  std::span<const BoundTensor> argument_tensors() const;
  static std::unique_ptr<PreparedCall> make(const record::Reader& reader,
                                            const torch::jit::Stack& arguments,
                                            const DirectCall* direct);
  bool prepare(const record::Reader& reader,
               const torch::jit::Stack& arguments);
  bool take_record(const record::Reader& reader);
  bool prepare_argument(size_t index, const record::Argument& described,
                        record::Reader& rest);
  bool prepare_list(const c10::IValue& list, uint32_t length,
                    record::Reader& rest);
  bool read_outputs();
  bool has_plain_output() const;
  void prepare_direct();
  size_t shape_before(const record::TensorView& view,
                      const record::Reader& rest) const;
  void add_tensor(const at::Tensor& tensor, const record::TensorView& view,
                  size_t shape);
  static void* translate(orKernelContext* ctx, const record::StorageView& view);
  bool bind_tensor(const BoundTensor& tensor, int64_t offset,
                   const record::Reader& reader);
  bool bind_outputs(orKernelContext* ctx, const record::Reader& reader);
  void bind_values(std::span<const record::Word> words);
  bool is_shared() const;
  bool has_output_as_expected() const;

  std::vector<record::Word> record_;  // the last that did not fit
  record::Reader first_{record_};     // of that, with nothing read
  const DirectCall* direct_ = nullptr;
  torch::jit::Stack arguments_;
  ExpectedVector outputs_;         // their views are of `first_`
  std::vector<uint64_t> extents_;  // of these
  at::Tensor out_;                 // of a direct call
  c10::SmallVector<int64_t, 4> out_sizes_;
  c10::SmallVector<BoundTensor, 4> tensors_;    // of the arguments, then `out_`
  c10::SmallVector<BoundStorage, 4> storages_;  // by their numbers
  c10::SmallVector<BoundValue, 2> values_;
};

}  // namespace torch_openreg::device
