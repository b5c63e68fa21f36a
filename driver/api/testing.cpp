#include "openreg/testing.h"

#include <new>
#include <set>

#include "api/arguments.h"
#include "api/entry.h"
#include "core/counters.h"
#include "core/futex.h"
#include "core/process_order.h"
#include "core/thread_safety.h"
#include "kernels/builtin.h"

using namespace openreg;
using namespace openreg::api;

namespace {

// The gates that live. Thread-safe.
class GateList {
 public:
  static GateList& get() {
    static auto* const list = new GateList;
    return *list;
  }
  void add(orTestingGate_t gate) {
    const MutexLock lock(mutex_);
    gates_.insert(gate);
  }
  bool remove(orTestingGate_t gate) {
    const MutexLock lock(mutex_);
    return gates_.erase(gate) == 1;
  }
  bool contains(orTestingGate_t gate) {
    const MutexLock lock(mutex_);
    return gates_.count(gate) == 1;
  }

 private:
  Mutex mutex_;
  std::set<orTestingGate_t> gates_ GUARDED_BY(mutex_);
};

Status bad_gate(orTestingGate_t gate) {
  return failure(orErrorInvalidValue, "gate=%p is not a live gate",
                 static_cast<void*>(gate));
}

Status find_gate(orTestingGate_t gate, GateState** state) {
  if (!GateList::get().contains(gate)) return bad_gate(gate);
  *state = reinterpret_cast<GateState*>(gate);
  return {};
}

void open_gate(GateState& gate) {
  before_other_process();
  gate.open.store(1);
  futex_wake_all(gate.open);
}

}  // namespace

orError_t orTestingGateCreate(orTestingGate_t* gate) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(gate, "gate"));
    void* memory = nullptr;
    OPENREG_RETURN_IF_ERROR(
        Runtime::get().host_memory().allocate(sizeof(GateState), &memory));
    new (memory) GateState;
    *gate = static_cast<orTestingGate_t>(memory);
    GateList::get().add(*gate);
    return {};
  });
}

orError_t orTestingGateHold(orTestingGate_t gate, orStream_t stream,
                            int occupy) {
  return call(__func__, [&]() -> Status {
    GateState* state = nullptr;
    StreamRef found;
    OPENREG_RETURN_IF_ERROR(find_gate(gate, &state));
    OPENREG_RETURN_IF_ERROR(found.find(stream));
    std::shared_ptr<const Kernel> kernel;
    OPENREG_RETURN_IF_ERROR(
        found->context().hardware().builtin_module()->find("gate", &kernel));
    const orTestingGateArgs args{state, occupy};
    return found->submit_async(LaunchCommand{std::move(kernel)},
                               std::as_bytes(std::span(&args, 1)));
  });
}

orError_t orTestingGateAwait(orTestingGate_t gate, int count) {
  return call(__func__, [&]() -> Status {
    GateState* state = nullptr;
    OPENREG_RETURN_IF_ERROR(find_gate(gate, &state));
    for (;;) {
      const uint32_t arrived = state->arrived.load();
      if (static_cast<int64_t>(arrived) >= count) return {};
      futex_wait(state->arrived, arrived);
    }
  });
}

orError_t orTestingGateOpen(orTestingGate_t gate) {
  return call(__func__, [&]() -> Status {
    GateState* state = nullptr;
    OPENREG_RETURN_IF_ERROR(find_gate(gate, &state));
    open_gate(*state);
    return {};
  });
}

orError_t orTestingGateDestroy(orTestingGate_t gate) {
  return call(__func__, [&]() -> Status {
    if (!GateList::get().remove(gate)) return bad_gate(gate);
    open_gate(*reinterpret_cast<GateState*>(gate));
    return Runtime::get().free_host(gate);
  });
}

orError_t orTestingGetCounters(orTestingCounters* counters) {
  return call(__func__, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(require(counters, "counters"));
    Runtime& runtime = Runtime::get();
    orTestingCounters result{};
    result.liveStreams = runtime.streams().live();
    result.liveEvents = runtime.events().live();
    result.liveModules = runtime.live_modules();
    result.liveHostAllocations = runtime.host_memory().live();
    DeviceCounters sum;
    sum.add(openreg::counters());
    for (int index = 0; index < runtime.device_count(); ++index) {
      Context* context = runtime.device(index).context_if_open();
      if (context == nullptr) continue;
      ++result.openDevices;
      context->hardware().add_counters(sum);
      result.liveAllocations += context->memory().heap().live();
    }
    result.workerThreads = sum.worker_threads;
    result.queueChunks = sum.queue_chunks;
    result.systemCalls = sum.memory_system_calls;
    result.deviceWaits = sum.device_waits;
    result.stagedBytes = sum.staged_bytes;
    *counters = result;
    return {};
  });
}
