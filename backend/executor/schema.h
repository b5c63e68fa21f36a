// What both sides read from an operator's schema.
#pragma once

#include <ATen/core/function_schema.h>

namespace torch_openreg {

// Whether the operator writes this argument; of a return, whether it is such an
// argument (in-place, out=), and so no new tensor.
inline bool is_written(const c10::Argument& argument) {
  const c10::AliasInfo* const alias = argument.alias_info();
  return alias != nullptr && alias->isWrite();
}

}  // namespace torch_openreg
