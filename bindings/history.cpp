// What the device allocator keeps of its past, and with which stacks.
#include "bindings/history.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <bitset>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/runtime/device_allocator.h"
#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::RecordContext;

// The actions that snapshots leave out, by number. Guarded by the GIL.
std::bitset<16> skipped_actions;

std::shared_ptr<c10::GatheredContext> gather_python() {
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true,
                                          /*cpp=*/false);
}

std::shared_ptr<c10::GatheredContext> gather_all() {
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true,
                                          /*cpp=*/true);
}

using Option = std::optional<std::string>;

void check_option(const char* name, const Option& value,
                  std::initializer_list<std::string_view> allowed) {
  if (!value.has_value()) return;
  for (const std::string_view candidate : allowed) {
    if (*value == candidate) return;
  }
  std::string choices;
  for (const std::string_view candidate : allowed) {
    choices += c10::str("'", candidate, "', ");
  }
  TORCH_CHECK_VALUE(false, "expected ", name, " to be ", choices,
                    "or None, got '", *value, "'");
}

RecordContext to_record_context(const Option& context) {
  if (!context.has_value()) return RecordContext::NEVER;
  if (*context == "state") return RecordContext::STATE;
  return *context == "alloc" ? RecordContext::ALLOC : RecordContext::ALL;
}

void set_skipped_actions(const std::vector<std::string>& actions) {
  std::bitset<16> skipped;
  for (const std::string& action : actions) {
    skipped.set(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
  }
  skipped_actions = skipped;
}

void record_memory_history(const Option& enabled, const Option& context,
                           const std::string& stacks, size_t max_entries,
                           bool clear_history,
                           const std::vector<std::string>& skip_actions) {
  check_option("enabled", enabled, {"state", "all"});
  check_option("context", context, {"state", "alloc", "all"});
  check_option("stacks", stacks, {"python", "all"});
  set_skipped_actions(skip_actions);
  const CreateContextFn gather = stacks == "all" ? &gather_all : &gather_python;
  const bool with_trace = enabled == "all";
  const py::gil_scoped_release no_gil;
  OpenRegDeviceAllocator::get().record_history(
      enabled.has_value(), context.has_value() ? gather : nullptr,
      with_trace ? max_entries : 0, to_record_context(context), clear_history);
}

}  // namespace

bool is_skipped(c10::CachingDeviceAllocator::TraceEntry::Action action) {
  return skipped_actions.test(action);
}

void bind_history(py::module_& module) {
  module.def("_record_memory_history",
             wrap_pybind_function(record_memory_history), py::arg("enabled"),
             py::arg("context"), py::arg("stacks"), py::arg("max_entries"),
             py::arg("clear_history"), py::arg("skip_actions"));
}

}  // namespace torch_openreg::bindings
