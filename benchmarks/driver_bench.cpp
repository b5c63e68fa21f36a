// What the driver costs, beside what the host would pay for the same thing.
//
// The names are what report.py reads: it compares the medians of two benchmarks
// that ran interleaved in one process. Times are per call, also where a batch
// is measured as a whole.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <vector>

#include "openreg/openreg.h"
#include "openreg/testing.h"

namespace {

constexpr size_t kCopySize = size_t{64} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

// A benchmark has no use for a driver that fails.
void check(orError_t code) {
  if (code == orSuccess) return;
  std::fprintf(stderr, "%s: %s\n", orGetErrorName(code),
               orGetLastErrorMessage());
  std::abort();
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

orFunction_t builtin(const char* name) {
  orModule_t module = nullptr;
  orFunction_t function = nullptr;
  check(orModuleGetBuiltin(&module));
  check(orModuleGetFunction(&function, module, name));
  return function;
}

// A stream for the length of a benchmark.
class Stream {
 public:
  Stream() { check(orStreamCreateWithFlags(&stream_, orStreamNonBlocking)); }
  ~Stream() { check(orStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator orStream_t() const { return stream_; }

 private:
  orStream_t stream_ = nullptr;
};

// Host memory as good as it gets: the comparison is with the fastest memcpy.
void* huge_pages() {
  void* const memory = std::aligned_alloc(kHugePage, kCopySize);
  madvise(memory, kCopySize, MADV_HUGEPAGE);  // a wish, which may be refused
  return memory;
}

// Pinned memory, a device block, and two ordinary host buffers, of 64 MB each.
// They are made once, so that every benchmark copies the same pages.
struct CopyBuffers {
  CopyBuffers() {
    check(orMallocHost(&pinned, kCopySize));
    check(orMalloc(&device, kCopySize));
    source = huge_pages();
    target = huge_pages();
    std::memset(pinned, 1, kCopySize);
    std::memset(source, 2, kCopySize);
    std::memset(target, 3, kCopySize);
    check(orMemset(device, 4, kCopySize));
    check(orDeviceSynchronize());
  }
  static CopyBuffers& get() {
    static auto* const buffers = new CopyBuffers;  // lives as long as the run
    return *buffers;
  }

  void* pinned = nullptr;
  void* device = nullptr;
  void* source = nullptr;
  void* target = nullptr;
};

void set_copied_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kCopySize));
}

void copy_host_memcpy(benchmark::State& state) {
  const CopyBuffers& buffers = CopyBuffers::get();
  for (auto _ : state) {
    std::memcpy(buffers.target, buffers.source, kCopySize);
    benchmark::ClobberMemory();
  }
  set_copied_bytes(state);
}
BENCHMARK(copy_host_memcpy)->UseRealTime();

void copy_async(benchmark::State& state, bool to_device) {
  const CopyBuffers& buffers = CopyBuffers::get();
  Stream stream;
  void* const dst = to_device ? buffers.device : buffers.pinned;
  void* const src = to_device ? buffers.pinned : buffers.device;
  const orMemcpyKind kind =
      to_device ? orMemcpyHostToDevice : orMemcpyDeviceToHost;
  for (auto _ : state) {
    check(orMemcpyAsync(dst, src, kCopySize, kind, stream));
    check(orStreamSynchronize(stream));
  }
  set_copied_bytes(state);
}
BENCHMARK_CAPTURE(copy_async, to_device, true)->UseRealTime();
BENCHMARK_CAPTURE(copy_async, to_host, false)->UseRealTime();

void copy_sync(benchmark::State& state, bool to_device) {
  const CopyBuffers& buffers = CopyBuffers::get();
  void* const dst = to_device ? buffers.device : buffers.pinned;
  void* const src = to_device ? buffers.pinned : buffers.device;
  const orMemcpyKind kind =
      to_device ? orMemcpyHostToDevice : orMemcpyDeviceToHost;
  for (auto _ : state) check(orMemcpy(dst, src, kCopySize, kind));
  set_copied_bytes(state);
}
BENCHMARK_CAPTURE(copy_sync, to_device, true)->UseRealTime();
BENCHMARK_CAPTURE(copy_sync, to_host, false)->UseRealTime();

// What the host would do instead of a stream: a task on a thread of its own.
// Waiting for the tasks is not counted.
void launch_std_async(benchmark::State& state) {
  constexpr size_t kBatch = 50;
  std::vector<std::future<void>> tasks(kBatch);
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (auto& task : tasks) task = std::async(std::launch::async, [] {});
    state.SetIterationTime(seconds_since(start) / kBatch);
    for (auto& task : tasks) task.wait();
  }
}
BENCHMARK(launch_std_async)->UseManualTime()->Iterations(100);

// Enqueues on a stream that a gate holds, so that nothing runs meanwhile. The
// drain is not counted.
void launch_on_busy_stream(benchmark::State& state) {
  constexpr size_t kBatch = 1000;
  const orFunction_t empty = builtin("empty");
  const uint64_t args[4] = {};
  Stream stream;
  for (auto _ : state) {
    orTestingGate_t gate = nullptr;
    check(orTestingGateCreate(&gate));
    check(orTestingGateHold(gate, stream, 0));
    check(orTestingGateAwait(gate, 1));
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < kBatch; ++i) {
      check(orLaunchKernel(empty, args, sizeof args, stream));
    }
    state.SetIterationTime(seconds_since(start) / kBatch);
    check(orTestingGateOpen(gate));
    check(orStreamSynchronize(stream));
    check(orTestingGateDestroy(gate));
  }
}
BENCHMARK(launch_on_busy_stream)->UseManualTime()->Iterations(100);

void launch_cheap_on_idle_stream(benchmark::State& state) {
  const orFunction_t empty = builtin("empty");
  const uint64_t args[4] = {};
  Stream stream;
  const orLaunchConfig_t config{sizeof config, stream, orLaunchCheap};
  for (auto _ : state) {
    check(orLaunchKernelEx(&config, empty, args, sizeof args));
  }
}
BENCHMARK(launch_cheap_on_idle_stream)->UseRealTime();

void launch_and_synchronize(benchmark::State& state) {
  const orFunction_t empty = builtin("empty");
  Stream stream;
  for (auto _ : state) {
    check(orLaunchKernel(empty, nullptr, 0, stream));
    check(orStreamSynchronize(stream));
  }
}
BENCHMARK(launch_and_synchronize)->UseRealTime();

// `system_calls` is the number that the driver made for memory while it was
// measured, after a warm-up.
void malloc_and_free(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const auto allocate_once = [size] {
    void* block = nullptr;
    check(orMalloc(&block, size));
    check(orFree(block));
  };
  for (int i = 0; i < 10; ++i) allocate_once();
  orTestingCounters before{};
  orTestingCounters after{};
  check(orTestingGetCounters(&before));
  for (auto _ : state) allocate_once();
  check(orTestingGetCounters(&after));
  state.counters["system_calls"] =
      static_cast<double>(after.systemCalls - before.systemCalls);
}
BENCHMARK(malloc_and_free)
    ->Arg(512)
    ->Arg(1 << 20)
    ->Arg(16 << 20)
    ->UseRealTime();

void event_record(benchmark::State& state, unsigned flags) {
  Stream stream;
  orEvent_t event = nullptr;
  check(orEventCreateWithFlags(&event, flags));
  for (auto _ : state) check(orEventRecord(event, stream));
  check(orStreamSynchronize(stream));
  check(orEventDestroy(event));
}
BENCHMARK_CAPTURE(event_record, timed, orEventDefault)->UseRealTime();
BENCHMARK_CAPTURE(event_record, untimed, orEventDisableTiming)->UseRealTime();

void event_query(benchmark::State& state) {
  Stream stream;
  orEvent_t event = nullptr;
  check(orEventCreate(&event));
  check(orEventRecord(event, stream));
  check(orEventSynchronize(event));
  for (auto _ : state) check(orEventQuery(event));
  check(orEventDestroy(event));
}
BENCHMARK(event_query)->UseRealTime();

// A kernel on one stream, a record, a wait and a kernel on another.
void wait_across_streams(benchmark::State& state) {
  const orFunction_t empty = builtin("empty");
  Stream producer;
  Stream consumer;
  orEvent_t event = nullptr;
  check(orEventCreateWithFlags(&event, orEventDisableTiming));
  for (auto _ : state) {
    check(orLaunchKernel(empty, nullptr, 0, producer));
    check(orEventRecord(event, producer));
    check(orStreamWaitEvent(consumer, event, 0));
    check(orLaunchKernel(empty, nullptr, 0, consumer));
    check(orStreamSynchronize(consumer));
  }
  check(orEventDestroy(event));
}
BENCHMARK(wait_across_streams)->UseRealTime();

void pointer_attributes(benchmark::State& state) {
  constexpr size_t kBlocks = 1000;
  std::vector<void*> blocks(kBlocks);
  for (void*& block : blocks) check(orMalloc(&block, 4096));
  orPointerAttributes attributes{};
  size_t i = 0;
  for (auto _ : state) {
    check(orPointerGetAttributes(&attributes, blocks[i++ % kBlocks]));
    benchmark::DoNotOptimize(attributes);
  }
  for (void* block : blocks) check(orFree(block));
}
BENCHMARK(pointer_attributes)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
