// Numbers that tests look at, over the whole process.
#pragma once

#include <atomic>
#include <cstdint>

namespace openreg {

// Thread-safe.
struct Counters {
  std::atomic<uint64_t> memory_system_calls{0};
  std::atomic<uint64_t> queue_chunks{0};
  std::atomic<uint64_t> worker_threads{0};
};

inline Counters& counters() {
  static Counters instance;
  return instance;
}

}  // namespace openreg
