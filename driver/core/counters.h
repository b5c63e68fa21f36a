// Numbers that tests look at, over the whole process.
#pragma once

#include <atomic>
#include <cstdint>

namespace openreg {

// Thread-safe. Processes may share it.
struct Counters {
  std::atomic<uint64_t> memory_system_calls{0};
  std::atomic<uint64_t> queue_chunks{0};
  std::atomic<uint64_t> worker_threads{0};
  std::atomic<uint64_t> device_waits{0};
  std::atomic<uint64_t> staged_bytes{0};
};

// The same at one moment, of one or of several processes.
struct DeviceCounters {
  uint64_t memory_system_calls = 0;
  uint64_t queue_chunks = 0;
  uint64_t worker_threads = 0;
  uint64_t device_waits = 0;
  uint64_t staged_bytes = 0;

  void add(const Counters& counters) {
    memory_system_calls += counters.memory_system_calls.load();
    queue_chunks += counters.queue_chunks.load();
    worker_threads += counters.worker_threads.load();
    device_waits += counters.device_waits.load();
    staged_bytes += counters.staged_bytes.load();
  }
};

// Where this process counts. A device process sets it, before it does anything
// else, to memory that the program can read.
inline Counters own_counters;
inline Counters* current_counters = &own_counters;

inline Counters& counters() { return *current_counters; }

}  // namespace openreg
