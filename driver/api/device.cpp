#include "openreg/device.h"

#include <algorithm>
#include <cstdio>

#include "api/arguments.h"
#include "api/entry.h"
#include "api/versioned_struct.h"
#include "core/system_memory.h"

using namespace openreg;
using namespace openreg::api;

namespace {

// The size of orDeviceProcessInfo in the first version, for ever.
constexpr size_t kFirstProcessInfo = 104;
static_assert(sizeof(orDeviceProcessInfo) >= kFirstProcessInfo);

void fill(orDeviceProcessInfo& info, Context& context) {
  const QueueList::Load load = context.load();
  info.isOpen = 1;
  info.pid = context.hardware().process();
  if (info.pid != 0) {
    const ProcessUsage usage = process_usage(info.pid);
    info.residentMemory = usage.resident_bytes;
    info.threads = usage.threads;
  }
  info.streams = load.queues;
  info.queuedCommands = load.commands;
  info.memoryUsed =
      context.memory().limit() - context.memory().heap().available();
  info.memoryLimit = context.memory().limit();
  info.life = context.epoch();
}

}  // namespace

orError_t orGetDeviceCount(int* count) {
  return call_anytime(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(count, "count"));
    const Runtime& runtime = Runtime::get();
    OPENREG_RETURN_IF_ERROR(runtime.status());
    *count = runtime.device_count();
    return {};
  });
}

orError_t orGetDevice(int* device) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(device, "device"));
    OPENREG_RETURN_IF_ERROR(require_device(current_device(), "device"));
    *device = current_device();
    return {};
  });
}

orError_t orSetDevice(int device) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require_device(device, "device"));
    set_current_device(device);
    return {};
  });
}

orError_t orGetDeviceProperties(orDeviceProp* prop, int device) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(prop, "prop"));
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(device_context(device, &context));
    *prop = orDeviceProp{};
    std::snprintf(prop->name, sizeof prop->name, "OpenReg Simulated Device");
    prop->totalGlobalMem = context->memory().limit();
    prop->major = 1;
    prop->minor = 0;
    prop->multiProcessorCount = context->hardware().places();
    prop->clockRate = processor_clock_khz();
    prop->coreCount = usable_processors();
    prop->memoryAlignment = kAlignment;
    prop->maxKernelArguments = kMaxKernelArguments;
    prop->concurrentKernels = 1;
    prop->asyncEngineCount = 1;
    prop->unifiedAddressing = 1;
    prop->isolated = context->hardware().has_bytes() ? 0 : 1;
    prop->failuresStay = context->failures().keeps_all() ? 1 : 0;
    return {};
  });
}

orError_t orDeviceGetProcessInfo(orDeviceProcessInfo* info, int device) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(info, "info"));
    OPENREG_RETURN_IF_ERROR(check_struct(info, "info", kFirstProcessInfo));
    OPENREG_RETURN_IF_ERROR(require_device(device, "device"));
    Runtime& runtime = Runtime::get();
    orDeviceProcessInfo known{};
    std::snprintf(known.driver, sizeof known.driver, "%s",
                  runtime.config().driver == Driver::kIsolated ? "isolated"
                                                               : "inprocess");
    Context* const context = runtime.device(device).context_if_open();
    if (context != nullptr) fill(known, *context);
    write_struct(known, info);
    return {};
  });
}

orError_t orDeviceSynchronize(void) {
  return call(__func__, []() -> Status {
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(current_context(&context));
    context->synchronize();
    return context->failures().take();
  });
}

orError_t orDeviceReset(void) {
  return call(__func__, []() -> Status {
    OPENREG_RETURN_IF_ERROR(require_device(current_device(), "device"));
    Runtime& runtime = Runtime::get();
    return runtime.reset(runtime.device(current_device()));
  });
}

orError_t orDeviceCanAccessPeer(int* canAccess, int device, int peerDevice) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(canAccess, "canAccess"));
    OPENREG_RETURN_IF_ERROR(require_device(peerDevice, "peerDevice"));
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(device_context(device, &context));
    *canAccess =
        device != peerDevice && context->hardware().can_access_peers() ? 1 : 0;
    return {};
  });
}

orError_t orDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require_device(peerDevice, "peerDevice"));
    OPENREG_RETURN_IF_ERROR(require_flags(flags, 0));
    if (peerDevice == current_device()) {
      return failure(orErrorInvalidDevice,
                     "peerDevice=%d is the current device itself", peerDevice);
    }
    Context* context = nullptr;
    Context* peer = nullptr;
    OPENREG_RETURN_IF_ERROR(current_context(&context));
    if (!context->hardware().can_access_peers()) {
      return failure(orErrorNotSupported,
                     "devices of this driver can't access each other");
    }
    OPENREG_RETURN_IF_ERROR(device_context(peerDevice, &peer));
    if (context->set_access(peerDevice, true)) return {};
    return failure(orErrorInvalidValue,
                   "peerDevice=%d: access is already enabled", peerDevice);
  });
}

orError_t orDeviceDisablePeerAccess(int peerDevice) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require_device(peerDevice, "peerDevice"));
    Context* context = nullptr;
    OPENREG_RETURN_IF_ERROR(current_context(&context));
    if (!context->may_access(peerDevice)) {
      return failure(orErrorInvalidValue,
                     "peerDevice=%d: access is not enabled", peerDevice);
    }
    // What was launched before may still use the peer's memory, which does not
    // wait for this device any more when access has ended.
    context->synchronize();
    context->set_access(peerDevice, false);
    context->synchronize();
    return {};
  });
}

orError_t orDeviceGetStreamPriorityRange(int* leastPriority,
                                         int* greatestPriority) {
  return call(__func__, [&]() -> Status {
    if (leastPriority != nullptr) *leastPriority = kLeastPriority;
    if (greatestPriority != nullptr) *greatestPriority = kGreatestPriority;
    return {};
  });
}
