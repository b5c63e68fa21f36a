// Many threads use one cache.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "backend/simulation/record/metadata_cache.h"
#include "support/environment.h"

namespace torch_openreg::record::test {

namespace {

constexpr size_t kThreads = 8;
constexpr size_t kCapacity = 64;
constexpr size_t kKeys = 150;

// What a thread has seen.
struct Tally {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t wrong = 0;
  uint64_t too_many = 0;
};

std::array<Word, 3> key_of(size_t number) { return {number, 1, number * 3}; }

void look_up(MetadataCache& cache, size_t number, Tally& tally) {
  const auto found = cache.find(number % 5, 0, key_of(number));
  if (found == nullptr) {
    ++tally.misses;
    return;
  }
  ++tally.hits;
  // The metadata of a key says which key it is.
  if (found->returns.at(0) != static_cast<int32_t>(number)) ++tally.wrong;
}

void put(MetadataCache& cache, size_t number) {
  auto value = std::make_shared<CallMetadata>();
  value->returns.push_back(static_cast<int32_t>(number));
  cache.insert(number % 5, 0, key_of(number), std::move(value));
}

Tally use(MetadataCache& cache, uint64_t seed, size_t steps) {
  std::mt19937_64 random(seed);
  Tally tally;
  for (size_t i = 0; i < steps; ++i) {
    const size_t number = random() % kKeys;
    const size_t choice = random() % 1000;
    if (choice == 0) {
      cache.clear();
    } else if (choice < 20) {
      if (cache.statistics().entries > kCapacity) ++tally.too_many;
    } else if (choice < 600) {
      look_up(cache, number, tally);
    } else {
      put(cache, number);
    }
  }
  return tally;
}

TEST(MetadataCacheStressTest, ThreadsDoNotDisturbEachOther) {
  const size_t steps = 20'000 * stress_scale();
  MetadataCache cache(kCapacity);
  std::array<Tally, kThreads> tallies;
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      tallies[i] = use(cache, fuzz_seed() + i, steps);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Tally sum;
  for (const Tally& tally : tallies) {
    sum.hits += tally.hits;
    sum.misses += tally.misses;
    EXPECT_EQ(tally.wrong, 0);
    EXPECT_EQ(tally.too_many, 0);
  }
  const CacheStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.hits, sum.hits);
  EXPECT_EQ(statistics.misses, sum.misses);
  EXPECT_LE(statistics.entries, kCapacity);
  EXPECT_GT(sum.hits, 0);
  EXPECT_GT(statistics.evictions, 0);
}

}  // namespace

}  // namespace torch_openreg::record::test
