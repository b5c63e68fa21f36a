#include "support/coverage.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace openreg::test {

namespace {

constexpr size_t kPlaces = size_t{1} << 16;
std::array<std::atomic<uint8_t>, kPlaces> seen;
std::atomic<size_t> count{0};

}  // namespace

size_t covered_places() { return count.load(std::memory_order_relaxed); }

}  // namespace openreg::test

// Called by the compiler's instrumentation at every branch.
extern "C" void __sanitizer_cov_trace_pc() {
  using openreg::test::kPlaces;
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  auto& seen = openreg::test::seen[place % kPlaces];
  if (seen.load(std::memory_order_relaxed) != 0) return;
  if (seen.exchange(1, std::memory_order_relaxed) == 0) {
    openreg::test::count.fetch_add(1, std::memory_order_relaxed);
  }
}
