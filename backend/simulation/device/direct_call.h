// Calls of kernels without boxing.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>

#include "backend/simulation/device/reply.h"

namespace torch_openreg::device {

// An operator of one new tensor, as its out= kernel on the CPU: the output is
// made beforehand, and the arguments go to the kernel as they are. Immutable.
class DirectCall {
 public:
  virtual ~DirectCall() = default;
  DirectCall(const DirectCall&) = delete;
  DirectCall& operator=(const DirectCall&) = delete;

  // Null if the operator has no such kernel, or arguments that are not among
  // the common ones (see visit_common_signature).
  static std::unique_ptr<const DirectCall> find(const c10::OperatorHandle& op);

  // `arguments` are the operator's; `out` is as the operator would make it.
  virtual void call(const torch::jit::Stack& arguments,
                    at::Tensor& out) const = 0;

 protected:
  DirectCall() = default;
};

// An operator of several new tensors, which its kernel makes. Immutable.
class ResultCall {
 public:
  virtual ~ResultCall() = default;
  ResultCall(const ResultCall&) = delete;
  ResultCall& operator=(const ResultCall&) = delete;

  // Null if the operator has arguments or results that are not among the common
  // ones (see visit_common_signature_of_many).
  static std::unique_ptr<const ResultCall> find(const c10::OperatorHandle& op);

  // Returns those results that are defined.
  virtual TensorVector call(const torch::jit::Stack& arguments) const = 0;

 protected:
  ResultCall() = default;
};

}  // namespace torch_openreg::device
