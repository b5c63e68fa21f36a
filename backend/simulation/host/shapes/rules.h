// Finds and applies the shape rules.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

#include <memory>
#include <span>
#include <string_view>

#include "backend/simulation/host/shapes/rule.h"
#include "backend/simulation/record/metadata_cache.h"

namespace torch_openreg::shapes {

// The rule of an operator, whose name with its overload is `full_name`; null if
// it has none. Thread-safe.
Rule find_rule(const c10::OperatorName& name, std::string_view full_name);

// Applies the rule to a call. `pattern` is the metadata of a call of the same
// signature: it has the dtypes. Null if the rule does not know.
std::shared_ptr<const record::CallMetadata> apply(
    Rule rule, std::span<const c10::IValue> arguments,
    const record::CallMetadata& pattern);

// The same of an operator that every CPU has for floats, and that gives floats:
// no call has been seen. Null if an argument is something else.
std::shared_ptr<const record::CallMetadata> apply_to_floats(
    Rule rule, std::span<const c10::IValue> arguments);

}  // namespace torch_openreg::shapes
