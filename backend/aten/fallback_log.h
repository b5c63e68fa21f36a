// What the copying fallback was used for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/export.h"

namespace torch_openreg {

// Why an operator was not run on the device.
enum class FallbackReason {
  kNotRegistered,  // the operator was registered after the backend
  kArguments,      // a record can't carry its arguments or results
  kTensor,         // a record can't carry a tensor: its layout or its kind
};

struct FallbackUse {
  std::string name;
  FallbackReason reason;
  uint64_t count;
  uint64_t bytes;  // copied to the host; results come on top
};

// Counts one use; in strict mode throws c10::NotImplementedError instead.
// Thread-safe.
void note_fallback(const std::string& name, FallbackReason reason,
                   uint64_t bytes);

// All uses since the start or the last reset, the most frequent first.
TORCH_OPENREG_API std::vector<FallbackUse> fallback_uses();
TORCH_OPENREG_API void reset_fallback_uses();

// Strict mode: at first as OPENREG_STRICT says (1 is on). Returns what it was
// before.
TORCH_OPENREG_API bool set_strict(bool strict);
TORCH_OPENREG_API bool is_strict();

// "the operator was registered after …", for reports.
TORCH_OPENREG_API const char* describe(FallbackReason reason);

}  // namespace torch_openreg
