// Counts the uses of the copying fallback.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/export.h"

namespace torch_openreg {

// Why an operator was not run on the device.
enum class FallbackReason {
  kNoKernel,       // the device has no kernel for it
  kNotRegistered,  // the operator was registered after the backend
  kArguments,      // a record can't carry its arguments or results
  kTensor,         // a record can't carry a tensor: its layout or its kind
  kByChoice,       // the operator is registered to fall back
  kNotOnDevice,    // the device has no such operator
};

struct FallbackUse {
  std::string name;
  FallbackReason reason;
  uint64_t count;
  uint64_t bytes;  // copied to the host; results come on top
  // The Python stack of the first use, as PyTorch gathers it; null without
  // Python.
  std::shared_ptr<c10::GatheredContext> where;
};

// Counts one use; in strict mode throws c10::NotImplementedError instead.
// Thread-safe.
void note_fallback(const std::string& name, FallbackReason reason,
                   uint64_t bytes);

// All uses since the start or the last reset, the most frequent first.
TORCH_OPENREG_API std::vector<FallbackUse> fallback_uses();
TORCH_OPENREG_API void reset_fallback_uses();

// Strict mode, for the whole process: at first as OPENREG_STRICT says (1 is
// on); throws c10::AcceleratorError if that is neither 0 nor 1. set_strict
// returns what it was before. Thread-safe.
TORCH_OPENREG_API bool set_strict(bool strict);
TORCH_OPENREG_API bool is_strict();

// "the operator was registered after …", for reports.
TORCH_OPENREG_API const char* describe(FallbackReason reason);

}  // namespace torch_openreg
