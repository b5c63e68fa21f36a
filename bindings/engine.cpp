// How operators run: counters, the copying fallback, settings.

#include <exception>

#include "backend/fallback/fallback_log.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/sync_debug.h"
#include "backend/seam.h"
#include "bindings/frames.h"
#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

py::dict statistics() {
  const LaunchStatistics now = launch_statistics();
  py::dict result;
  result["launches"] = now.launches;
  result["synchronous_runs"] = now.synchronous;
  result["inferred_kinds"] = now.inferred;
  result["rehearsed_kinds"] = now.rehearsed;
  result["cache_hits"] = now.cache_hits;
  result["cache_misses"] = now.cache_misses;
  result["cache_evictions"] = now.cache_evictions;
  result["cache_entries"] = now.cache_entries;
  return result;
}

py::list uses() {
  const std::vector<FallbackUse> all = fallback_uses();
  Frames frames;
  py::list result;
  for (const FallbackUse& use : all) {
    py::dict row;
    row["operator"] = use.name;
    row["reason"] = describe(use.reason);
    row["count"] = use.count;
    row["bytes"] = use.bytes;
    frames.add(row, use.where);
    result.append(row);
  }
  frames.resolve();
  return result;
}

// The failure that waiting for a device brings to light. None of a device that
// is broken for good: nothing is queued there, and every other call says so.
std::exception_ptr wait_for(c10::DeviceIndex device) {
  try {
    synchronize_device(device);
  } catch (...) {
    std::exception_ptr failure = std::current_exception();
    try {
      synchronize_device(device);
    } catch (...) {
      return nullptr;
    }
    return failure;
  }
  return nullptr;
}

void wait_for_queued_work() {
  std::exception_ptr first;
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    if (!has_primary_context(i)) continue;
    const std::exception_ptr failure = wait_for(i);
    if (first == nullptr) first = failure;
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace

void bind_engine(py::module_& module) {
  module.def("_engine_statistics", wrap_pybind_function(statistics));
  module.def("_fallback_uses", wrap_pybind_function(uses));
  module.def("_reset_fallback_uses", wrap_pybind_function(reset_fallback_uses));
  module.def("_note_thread_count", wrap_pybind_function(note_thread_count));
  module.def("_refresh_settings", wrap_pybind_function(refresh_settings));
  module.def("_set_verification", wrap_pybind_function(set_verification));
  module.def("_set_strict", wrap_pybind_function(set_strict));
  module.def("_is_strict", wrap_pybind_function(is_strict));
  module.def("_wait_for_queued_work",
             wrap_pybind_function_no_gil(wait_for_queued_work));
  module.def("_set_sync_debug_mode", wrap_pybind_function([](int64_t mode) {
               set_sync_debug_mode(static_cast<SyncDebugMode>(mode));
             }));
  module.def("_get_sync_debug_mode", wrap_pybind_function([] {
               return static_cast<int64_t>(sync_debug_mode());
             }));
}

}  // namespace torch_openreg::bindings
