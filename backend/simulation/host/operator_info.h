// The facts that the engine needs about an operator, found once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/simulation/host/shapes/rules.h"

namespace torch_openreg {

// An operator on lists of tensors.
bool is_foreach(const c10::OperatorHandle& op);

// Made from the schema and the tags; immutable except what turns out later.
// Thread-safe.
struct OperatorInfo {
  explicit OperatorInfo(const c10::OperatorHandle& handle);

  const c10::OperatorHandle op;
  const std::string name;  // with its overload
  const uint64_t id;       // of the name

  // By argument: whether the operator writes it.
  std::vector<bool> written;
  // By return: the argument that it is, or -1.
  std::vector<int> aliased;
  bool returns_new = false;       // some return is no argument
  bool gives_one_tensor = false;  // which is new, and nothing else
  bool has_out = false;           // some argument is written only
  bool writes = false;            // some argument is written

  bool is_carryable = true;  // a record can hold its arguments and results
  bool numbers_are_apart = false;  // they don't decide metadata
  // By argument: whether it is a number of any type, as in `x * 2`.
  std::vector<bool> takes_number;
  // The arguments that name something by a number: a dtype, a mode.
  std::vector<size_t> enumerations;
  int generator = -1;            // which argument it is
  bool is_heavy = false;         // takes long even on few elements
  bool is_product = false;       // of matrices
  bool is_synchronous = false;   // data decides the results' metadata
  bool may_refuse_data = false;  // zeros may be a bad argument of it
  bool takes_host_indices = false;
  bool takes_optionals = false;  // in a list: a tensor or none

  // Computes the outputs' metadata: our rule, or else PyTorch's Meta kernel,
  // unless it has turned out that it can't.
  const shapes::Rule rule;  // or null
  const std::optional<c10::KernelFunction> meta;
  // The Meta kernel is the part of the CPU's kernel that checks shapes and
  // numbers and decides metadata. (What becomes of an `out`, the rest decides.)
  bool has_same_meta = false;
  // The CPU has a kernel for floats, which gives floats, and takes long to
  // start.
  bool gives_floats = false;
  // Small tensors may stand for the operator's: see rehearse_small().
  bool can_be_small = false;
  mutable std::atomic<bool> is_meta_usable;
  // It has given a sparse, nested or quantized tensor: only a run can tell
  // more.
  mutable std::atomic<bool> gives_composites = false;

  // Devices, by bit, that are known to have the operator.
  mutable std::atomic<uint64_t> known_on{0};

  // Whether the executor of `device`, which must be current, has the operator:
  // a library of this process may bring some that the device has not.
  bool is_on(c10::DeviceIndex device) const {
    const uint64_t bit = uint64_t{1} << static_cast<unsigned>(device);
    return (known_on.load(std::memory_order_relaxed) & bit) != 0 ||
           ask_for_it(device, bit);
  }

  // Whether shapes and numbers are checked where metadata is found, so that
  // one good call of a kind says that others have a kernel.
  bool checks_numbers() const { return rule != nullptr || has_same_meta; }

  // Whether data decides the metadata of this call.
  bool needs_data(std::span<const c10::IValue> arguments) const;

 private:
  bool ask_for_it(c10::DeviceIndex device, uint64_t bit) const;
};

}  // namespace torch_openreg
