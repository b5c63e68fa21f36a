// The cache of output metadata, beside a model of it.
#include "backend/simulation/record/metadata_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/environment.h"

namespace torch_openreg::record::test {

namespace {

using Metadata = std::shared_ptr<const CallMetadata>;

struct Key {
  uint64_t operator_id;
  uint64_t settings;
  std::vector<Word> words;
};

Metadata metadata() { return std::make_shared<CallMetadata>(); }

Metadata find(MetadataCache& cache, const Key& key) {
  return cache.find(key.operator_id, key.settings, key.words);
}

void insert(MetadataCache& cache, const Key& key, Metadata value) {
  cache.insert(key.operator_id, key.settings, key.words, std::move(value));
}

std::vector<Key> some_keys(size_t count) {
  std::vector<Key> keys;
  for (size_t i = 0; i < count; ++i) {
    keys.push_back({i % 7, i % 3, std::vector<Word>(i % 5, i)});
    keys.back().words.push_back(i);
  }
  return keys;
}

size_t part_of(const Key& key) {
  constexpr uint64_t kPerPart = ~uint64_t{0} / MetadataCache::kParts + 1;
  return MetadataCache::hash_of(key.operator_id, key.settings, key.words) /
         kPerPart;
}

// Keys that share a part.
std::vector<Key> neighbours(size_t count) {
  std::vector<Key> keys = some_keys(64 * count);
  std::erase_if(keys, [](const Key& key) { return part_of(key) != 0; });
  keys.resize(std::min(keys.size(), count));
  return keys;
}

TEST(MetadataCacheTest, KnowsNothingAtFirst) {
  MetadataCache cache(32);
  EXPECT_EQ(find(cache, {1, 2, {3}}), nullptr);
  EXPECT_EQ(find(cache, {0, 0, {}}), nullptr);
  const CacheStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.hits, 0);
  EXPECT_EQ(statistics.misses, 2);
  EXPECT_EQ(statistics.evictions, 0);
  EXPECT_EQ(statistics.entries, 0);
}

TEST(MetadataCacheTest, FindsWhatWasInserted) {
  MetadataCache cache(32);
  const Metadata value = metadata();
  insert(cache, {1, 2, {3, 4}}, value);
  EXPECT_EQ(find(cache, {1, 2, {3, 4}}), value);
  EXPECT_EQ(find(cache, {1, 2, {3}}), nullptr);
  EXPECT_EQ(find(cache, {1, 2, {4, 3}}), nullptr);
  EXPECT_EQ(find(cache, {1, 2, {3, 4, 0}}), nullptr);
  EXPECT_EQ(find(cache, {1, 3, {3, 4}}), nullptr);
  EXPECT_EQ(find(cache, {2, 2, {3, 4}}), nullptr);
  EXPECT_EQ(cache.statistics().hits, 1);
  EXPECT_EQ(cache.statistics().misses, 5);
}

TEST(MetadataCacheTest, AKeyMayBeEmpty) {
  MetadataCache cache(32);
  const Metadata value = metadata();
  insert(cache, {1, 2, {}}, value);
  EXPECT_EQ(find(cache, {1, 2, {}}), value);
  EXPECT_EQ(find(cache, {1, 2, {0}}), nullptr);
}

TEST(MetadataCacheTest, WhatWasThereFirstStays) {
  MetadataCache cache(32);
  const Metadata first = metadata();
  insert(cache, {1, 2, {3}}, first);
  insert(cache, {1, 2, {3}}, metadata());
  EXPECT_EQ(find(cache, {1, 2, {3}}), first);
  EXPECT_EQ(cache.statistics().entries, 1);
}

// The factors of the first words in the cache's hash.
constexpr uint64_t kFirst = 0x9e3779b97f4a7c15;
constexpr uint64_t kSecond = kFirst + 0x632be59bd9b4e01a;

// Calls of one hash: the operator and the settings enter it alike, and one word
// of a key can make up for another.
std::vector<Key> calls_of_one_hash() {
  std::vector<Key> keys{{1, 2, {3, 7}},   // in turn, these differ by
                        {2, 1, {3, 7}},   // operator and settings
                        {9, 10, {3, 7}},  // operator and settings
                        {1, 2, {3 + kSecond, 7 - kFirst}}};  // their words
  for (const Key& key : keys) {
    EXPECT_EQ(MetadataCache::hash_of(key.operator_id, key.settings, key.words),
              MetadataCache::hash_of(1, 2, keys[0].words))
        << "the hash has changed, and with it the calls of one hash";
  }
  return keys;
}

TEST(MetadataCacheTest, CallsOfOneHashAreToldApart) {
  const std::vector<Key> keys = calls_of_one_hash();
  std::vector<Metadata> values;
  MetadataCache cache(8 * MetadataCache::kParts);
  for (const Key& key : keys) {
    EXPECT_EQ(find(cache, key), nullptr);
    values.push_back(metadata());
    insert(cache, key, values.back());
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(find(cache, keys[i]), values[i]);
  }
}

TEST(MetadataCacheTest, TheOldestOfOneHashGoesAndNoOther) {
  const std::vector<Key> keys = calls_of_one_hash();
  MetadataCache cache(2 * MetadataCache::kParts);
  const Metadata value = metadata();
  insert(cache, keys[0], metadata());
  insert(cache, keys[1], value);
  insert(cache, keys[2], metadata());
  EXPECT_EQ(cache.statistics().evictions, 1);
  EXPECT_EQ(find(cache, keys[0]), nullptr);
  EXPECT_EQ(find(cache, keys[1]), value);
}

TEST(MetadataCacheTest, HoldsOneEntryAPartAtLeast) {
  MetadataCache cache(0);
  for (const Key& key : some_keys(500)) {
    const Metadata value = metadata();
    insert(cache, key, value);
    EXPECT_EQ(find(cache, key), value);
  }
  EXPECT_EQ(cache.statistics().entries, MetadataCache::kParts);
}

TEST(MetadataCacheTest, NeverHoldsMoreThanItsCapacity) {
  MetadataCache cache(100);
  for (const Key& key : some_keys(2000)) {
    insert(cache, key, metadata());
    ASSERT_LE(cache.statistics().entries, 100);
  }
  const CacheStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.entries, 96);  // a sixteenth of 100 each
  EXPECT_EQ(statistics.evictions, 2000 - 96);
}

TEST(MetadataCacheTest, WhatWasUsedLongestAgoGoes) {
  const std::vector<Key> keys = neighbours(4);
  ASSERT_EQ(keys.size(), 4);
  MetadataCache cache(3 * MetadataCache::kParts);
  for (size_t i = 0; i < 3; ++i) insert(cache, keys[i], metadata());
  EXPECT_NE(find(cache, keys[0]), nullptr);
  insert(cache, keys[3], metadata());
  EXPECT_NE(find(cache, keys[0]), nullptr);
  EXPECT_EQ(find(cache, keys[1]), nullptr);
  EXPECT_NE(find(cache, keys[2]), nullptr);
  EXPECT_NE(find(cache, keys[3]), nullptr);
}

TEST(MetadataCacheTest, WhatWentLivesAsLongAsItsUsers) {
  const std::vector<Key> keys = neighbours(2);
  MetadataCache cache(MetadataCache::kParts);
  auto value = std::make_shared<CallMetadata>();
  value->returns = {7};
  insert(cache, keys[0], std::move(value));
  const Metadata held = find(cache, keys[0]);
  insert(cache, keys[1], metadata());
  cache.clear();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(held->returns, std::vector<int32_t>{7});
}

TEST(MetadataCacheTest, ClearForgetsEntriesAndGoesOnCounting) {
  MetadataCache cache(256);
  const std::vector<Key> keys = some_keys(100);
  for (const Key& key : keys) insert(cache, key, metadata());
  for (const Key& key : keys) find(cache, key);
  const CacheStatistics before = cache.statistics();
  cache.clear();
  CacheStatistics after = cache.statistics();
  EXPECT_EQ(after.entries, 0);
  EXPECT_EQ(after.hits, before.hits);
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_EQ(after.evictions, before.evictions) << "nothing had to make room";
  for (const Key& key : keys) EXPECT_EQ(find(cache, key), nullptr);
  after = cache.statistics();
  EXPECT_EQ(after.misses, before.misses + keys.size());
}

TEST(MetadataCacheTest, ThePartsFillEvenly) {
  std::vector<size_t> sizes(MetadataCache::kParts);
  for (const Key& key : some_keys(16'000)) ++sizes.at(part_of(key));
  EXPECT_GT(*std::ranges::min_element(sizes), 800);
  EXPECT_LT(*std::ranges::max_element(sizes), 1200);
}

// What the cache must hold: of each part, the keys in the order of their last
// use. Not thread-safe.
class Model {
 public:
  explicit Model(size_t part_capacity) : part_capacity_(part_capacity) {}

  Metadata find(size_t key, size_t part) {
    std::list<size_t>& order = order_[part];
    const auto found = std::ranges::find(order, key);
    if (found == order.end()) {
      ++expected.misses;
      return nullptr;
    }
    ++expected.hits;
    order.splice(order.begin(), order, found);
    return values_[key];
  }

  void insert(size_t key, size_t part, const Metadata& value) {
    std::list<size_t>& order = order_[part];
    if (!values_.emplace(key, value).second) return;
    order.push_front(key);
    ++expected.entries;
    if (order.size() <= part_capacity_) return;
    values_.erase(order.back());
    order.pop_back();
    --expected.entries;
    ++expected.evictions;
  }

  void clear() {
    order_.clear();
    values_.clear();
    expected.entries = 0;
  }

  CacheStatistics expected{};

 private:
  const size_t part_capacity_;
  std::map<size_t, std::list<size_t>> order_;
  std::map<size_t, Metadata> values_;
};

void expect_equal(const CacheStatistics& actual,
                  const CacheStatistics& expected) {
  EXPECT_EQ(actual.hits, expected.hits);
  EXPECT_EQ(actual.misses, expected.misses);
  EXPECT_EQ(actual.evictions, expected.evictions);
  EXPECT_EQ(actual.entries, expected.entries);
}

TEST(MetadataCacheTest, DoesWhatTheModelDoes) {
  constexpr size_t kPartCapacity = 4;
  MetadataCache cache(kPartCapacity * MetadataCache::kParts);
  Model model(kPartCapacity);
  const std::vector<Key> keys = some_keys(150);
  std::mt19937_64 random(fuzz_seed());
  for (size_t i = 0; i < 50'000; ++i) {
    const size_t number = random() % keys.size();
    const Key& key = keys[number];
    const size_t choice = random() % 1000;
    if (choice == 0) {
      cache.clear();
      model.clear();
    } else if (choice < 600) {
      EXPECT_EQ(find(cache, key), model.find(number, part_of(key)));
    } else {
      const Metadata value = metadata();
      insert(cache, key, value);
      model.insert(number, part_of(key), value);
    }
    expect_equal(cache.statistics(), model.expected);
    ASSERT_FALSE(HasFailure())
        << "step " << i << " of OPENREG_FUZZ_SEED=" << fuzz_seed();
  }
  EXPECT_GT(model.expected.hits, 1000);
  EXPECT_GT(model.expected.evictions, 1000);
}

}  // namespace

}  // namespace torch_openreg::record::test
