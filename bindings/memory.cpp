// The allocators of device and of pinned host memory: statistics, limits, raw
// blocks.
#include <string>
#include <utility>
#include <vector>

#include "backend/runtime/device_allocator.h"
#include "backend/runtime/functions.h"
#include "backend/runtime/host_allocator.h"
#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

using c10::CachingAllocator::DurationStat;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

OpenRegDeviceAllocator& allocator() { return OpenRegDeviceAllocator::get(); }

// A negative index is the current device; one that is out of range throws.
c10::DeviceIndex checked(int64_t device) {
  return resolve_device(to_index(device));
}

py::dict to_dict(const Stat& stat) {
  py::dict result;
  result["current"] = stat.current;
  result["peak"] = stat.peak;
  result["allocated"] = stat.allocated;
  result["freed"] = stat.freed;
  return result;
}

py::dict to_dict(const StatArray& stats) {
  const auto of = [&stats](StatType type) {
    return to_dict(stats[static_cast<size_t>(type)]);
  };
  py::dict result;
  result["all"] = of(StatType::AGGREGATE);
  result["small_pool"] = of(StatType::SMALL_POOL);
  result["large_pool"] = of(StatType::LARGE_POOL);
  return result;
}

py::dict to_dict(const DurationStat& stat) {
  py::dict result;
  result["total"] = stat.total;
  result["max"] = stat.max;
  result["min"] = stat.min;
  result["count"] = stat.count;
  result["avg"] = stat.count == 0 ? 0 : stat.total / stat.count;
  return result;
}

// The nested form of torch.cuda.memory_stats.
py::dict to_dict(const DeviceStats& stats) {
  py::dict result;
  result["num_alloc_retries"] = stats.num_alloc_retries;
  result["num_ooms"] = stats.num_ooms;
  result["num_oom_rejections"] = stats.num_oom_rejections;
  result["max_split_size"] = stats.max_split_size;
  result["num_sync_all_streams"] = stats.num_sync_all_streams;
  result["num_device_alloc"] = stats.num_device_alloc;
  result["num_device_free"] = stats.num_device_free;
  result["allocation"] = to_dict(stats.allocation);
  result["segment"] = to_dict(stats.segment);
  result["active"] = to_dict(stats.active);
  result["inactive_split"] = to_dict(stats.inactive_split);
  result["allocated_bytes"] = to_dict(stats.allocated_bytes);
  result["reserved_bytes"] = to_dict(stats.reserved_bytes);
  result["active_bytes"] = to_dict(stats.active_bytes);
  result["inactive_split_bytes"] = to_dict(stats.inactive_split_bytes);
  result["requested_bytes"] = to_dict(stats.requested_bytes);
  result["oversize_allocations"] = to_dict(stats.oversize_allocations);
  result["oversize_segments"] = to_dict(stats.oversize_segments);
  py::dict by_pool;
  for (const auto& [pool, of_pool] : stats.reserved_bytes_by_private_pools) {
    by_pool[py::make_tuple(pool.first, pool.second)] = to_dict(of_pool);
  }
  result["reserved_bytes_by_private_pools"] = std::move(by_pool);
  return result;
}

py::dict memory_stats(int64_t device) {
  return to_dict(allocator().getDeviceStats(checked(device)));
}

// The nested form of torch.cuda.host_memory_stats.
py::dict host_memory_stats() {
  const at::HostStats stats = getOpenRegHostAllocator()->get_stats();
  py::dict result;
  result["num_host_alloc"] = stats.num_host_alloc;
  result["num_host_free"] = stats.num_host_free;
  result["allocations"] = to_dict(stats.allocations);
  result["allocated_bytes"] = to_dict(stats.allocated_bytes);
  result["active_requests"] = to_dict(stats.active_requests);
  result["active_bytes"] = to_dict(stats.active_bytes);
  result["host_alloc_time"] = to_dict(stats.host_alloc_time);
  result["host_free_time"] = to_dict(stats.host_free_time);
  return result;
}

int64_t raw_alloc(size_t size, const PackedStream& packed) {
  const OpenRegStream stream = unpack_stream(packed);
  const DeviceScope scope(stream.device_index());
  return reinterpret_cast<int64_t>(allocator().raw_alloc(size, stream));
}

void bind_device_memory(py::module_& module) {
  module.def("_memory_stats", wrap_pybind_function(memory_stats));
  module.def("_reset_accumulated_memory_stats",
             wrap_pybind_function([](int64_t device) {
               allocator().resetAccumulatedStats(checked(device));
             }));
  module.def("_reset_peak_memory_stats",
             wrap_pybind_function([](int64_t device) {
               allocator().resetPeakStats(checked(device));
             }));
  module.def("_mem_get_info", wrap_pybind_function_no_gil([](int64_t device) {
               return allocator().getMemoryInfo(checked(device));
             }));
  module.def("_empty_cache",
             wrap_pybind_function_no_gil([] { allocator().emptyCache(); }));
  module.def("_set_memory_fraction",
             wrap_pybind_function([](double fraction, int64_t device) {
               allocator().set_memory_fraction(fraction, checked(device));
             }));
  module.def("_get_memory_fraction", wrap_pybind_function([](int64_t device) {
               return allocator().memory_fraction(checked(device));
             }));
  module.def("_caching_allocator_raw_alloc",
             wrap_pybind_function_no_gil(raw_alloc));
  module.def("_caching_allocator_raw_delete",
             wrap_pybind_function_no_gil([](int64_t pointer) {
               allocator().raw_delete(reinterpret_cast<void*>(pointer));
             }));
}

void bind_host_memory(py::module_& module) {
  module.def("_host_memory_stats", wrap_pybind_function(host_memory_stats));
  module.def("_reset_accumulated_host_memory_stats", wrap_pybind_function([] {
               getOpenRegHostAllocator()->reset_accumulated_stats();
             }));
  module.def("_reset_peak_host_memory_stats", wrap_pybind_function([] {
               getOpenRegHostAllocator()->reset_peak_stats();
             }));
}

}  // namespace

void bind_memory(py::module_& module) {
  bind_device_memory(module);
  bind_host_memory(module);
}

}  // namespace torch_openreg::bindings
