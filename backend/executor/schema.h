// What both sides read from an operator's schema.
#pragma once

#include <ATen/core/function_schema.h>

namespace torch_openreg {

// Whether the return is an argument that the operator writes (in-place, out=),
// and so no new tensor.
inline bool is_written_argument(const c10::Argument& returned) {
  const c10::AliasInfo* const alias = returned.alias_info();
  return alias != nullptr && alias->isWrite();
}

}  // namespace torch_openreg
