// Random walks over the whole API, valid calls and wrong ones. The seed is
// fixed; OPENREG_FUZZ_SEED sets another, and every report names the one that
// was used.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/fuzz_walk.h"
#include "support/support.h"

namespace openreg::test {
namespace {

using FuzzTest = DriverTest;

uint64_t seed() {
  const char* const text = std::getenv("OPENREG_FUZZ_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20260713;
}

size_t call_count() { return 100'000 * static_cast<size_t>(stress_scale()); }

TEST_F(FuzzTest, EveryCallOfARandomWalkAnswersAsTheModelDoes) {
  SCOPED_TRACE("OPENREG_FUZZ_SEED=" + std::to_string(seed()));
  FuzzWalk walk(seed(), true);
  walk.run(call_count());
  walk.finish();
  if (HasFailure()) expect_leftovers();  // one report is enough
}

TEST_F(FuzzTest, WalksOnFourThreadsDoNotDisturbEachOther) {
  constexpr size_t kThreads = 4;
  SCOPED_TRACE("OPENREG_FUZZ_SEED=" + std::to_string(seed()));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([i] {
      FuzzWalk walk(seed() + i, false);
      walk.run(call_count() / kThreads);
      walk.finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (HasFailure()) expect_leftovers();
}

}  // namespace
}  // namespace openreg::test
