// The state of the device allocator in the format of torch.cuda.memory, which
// PyTorch's memory viewer reads.
#include <c10/core/AllocatorConfig.h>

#include <memory>
#include <utility>
#include <vector>

#include "backend/runtime/device_allocator.h"
#include "bindings/frames.h"
#include "bindings/history.h"
#include "bindings/module.h"

namespace torch_openreg::bindings {

namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;
using c10::CachingDeviceAllocator::TraceEntry;

py::tuple to_tuple(const c10::MempoolId_t& pool) {
  return py::make_tuple(pool.first, pool.second);
}

const char* state_of(const BlockInfo& block) {
  if (block.allocated) return "active_allocated";
  return block.active ? "active_pending_free" : "inactive";
}

py::list to_list(const std::vector<BlockInfo>& blocks, size_t address,
                 Frames& frames) {
  py::list result;
  for (const BlockInfo& block : blocks) {
    py::dict item;
    item["address"] = address;
    item["size"] = block.size;
    item["requested_size"] = block.requested_size;
    item["state"] = state_of(block);
    frames.add(item, block.context_when_allocated);
    result.append(std::move(item));
    address += block.size;
  }
  return result;
}

py::dict to_dict(const SegmentInfo& segment, Frames& frames) {
  py::dict result;
  result["device"] = static_cast<int>(segment.device);
  result["address"] = segment.address;
  result["total_size"] = segment.total_size;
  result["allocated_size"] = segment.allocated_size;
  result["active_size"] = segment.active_size;
  result["requested_size"] = segment.requested_size;
  result["stream"] = reinterpret_cast<intptr_t>(segment.stream);
  result["segment_type"] = segment.is_large ? "large" : "small";
  result["segment_pool_id"] = to_tuple(segment.owner_private_pool_id);
  result["is_expandable"] = segment.is_expandable;
  frames.add(result, segment.context_when_allocated);
  result["blocks"] = to_list(segment.blocks, segment.address, frames);
  return result;
}

const char* name_of(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_REQUESTED:
      return "free_requested";
    case TraceEntry::FREE_COMPLETED:
      return "free_completed";
    case TraceEntry::SEGMENT_ALLOC:
      return "segment_alloc";
    case TraceEntry::SEGMENT_FREE:
      return "segment_free";
    case TraceEntry::SEGMENT_MAP:
      return "segment_map";
    case TraceEntry::SEGMENT_UNMAP:
      return "segment_unmap";
    case TraceEntry::SNAPSHOT:
      return "snapshot";
    case TraceEntry::OOM:
      return "oom";
  }
  TORCH_INTERNAL_ASSERT(false, "unknown action");
}

py::dict to_dict(const TraceEntry& entry, Frames& frames) {
  py::dict result;
  result["action"] = name_of(entry.action_);
  result[entry.action_ == TraceEntry::OOM ? "device_free" : "addr"] =
      entry.addr_;
  result["size"] = entry.size_;
  result["stream"] = reinterpret_cast<intptr_t>(entry.stream_);
  result["time_us"] = entry.time_.t_;
  result["pool_id"] = to_tuple(entry.mempool_);
  result["compile_context"] =
      entry.compile_context_.empty() ? "N/A" : entry.compile_context_;
  result["user_metadata"] = entry.user_metadata_;
  frames.add(result, entry.context_);
  return result;
}

py::list to_list(const std::vector<TraceEntry>& trace, Frames& frames) {
  py::list result;
  for (const TraceEntry& entry : trace) {
    if (!is_skipped(entry.action_)) result.append(to_dict(entry, frames));
  }
  return result;
}

py::dict allocator_settings() {
  using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
  py::dict rounding;
  size_t size = size_t{1} << 20;
  for (const size_t divisions : Config::roundup_power2_divisions()) {
    rounding[py::str(std::to_string(size >> 20))] = divisions;
    size <<= 1;
  }
  py::dict result;
  result["PYTORCH_ALLOC_CONF"] = Config::last_allocator_settings();
  // -1: unlimited.
  result["max_split_size"] = static_cast<int64_t>(Config::max_split_size());
  result["garbage_collection_threshold"] =
      Config::garbage_collection_threshold();
  result["expandable_segments"] = Config::use_expandable_segments();
  result["roundup_power2_divisions"] = std::move(rounding);
  return result;
}

MemorySnapshot take_snapshot() {
  const py::gil_scoped_release no_gil;
  return OpenRegDeviceAllocator::get().snapshot();
}

py::dict memory_snapshot(bool include_traces) {
  const MemorySnapshot snapshot = take_snapshot();
  Frames frames;
  py::list segments;
  for (const SegmentInfo& segment : snapshot.segments) {
    segments.append(to_dict(segment, frames));
  }
  py::list traces;
  for (const auto& trace : snapshot.traces) {
    traces.append(include_traces ? to_list(trace, frames) : py::list());
  }
  frames.resolve();
  py::dict result;
  result["segments"] = std::move(segments);
  result["device_traces"] = std::move(traces);
  result["allocator_settings"] = allocator_settings();
  result["external_annotations"] = py::list();
  return result;
}

}  // namespace

void bind_snapshot(py::module_& module) {
  module.def("_memory_snapshot", wrap_pybind_function(memory_snapshot),
             py::arg("include_traces"));
}

}  // namespace torch_openreg::bindings
