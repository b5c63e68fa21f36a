#include "backend/record/metadata_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace torch_openreg::record {

uint64_t MetadataCache::hash_of(uint64_t operator_id, uint64_t settings,
                                std::span<const Word> key) {
  // A sum of products: no step waits for the one before.
  uint64_t hash = operator_id ^ settings;
  uint64_t factor = 0x9e3779b97f4a7c15;
  for (const Word word : key) {
    hash += word * factor;
    factor += 0x632be59bd9b4e01a;
  }
  return (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9;
}

MetadataCache::MetadataCache(size_t capacity)
    : part_capacity_(std::max<size_t>(1, capacity / kParts)) {}

std::list<MetadataCache::Entry>::iterator MetadataCache::find_in(
    Part& part, uint64_t hash, uint64_t operator_id, uint64_t settings,
    std::span<const Word> key) {
  const auto [begin, end] = part.by_hash.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Entry& entry = *it->second;
    if (entry.operator_id == operator_id && entry.settings == settings &&
        std::ranges::equal(entry.key, key)) {
      return it->second;
    }
  }
  return part.entries.end();
}

std::shared_ptr<const CallMetadata> MetadataCache::find(
    uint64_t operator_id, uint64_t settings, std::span<const Word> key) {
  const uint64_t hash = hash_of(operator_id, settings, key);
  Part& part = this->part(hash);
  const std::lock_guard lock(part.mutex);
  const auto found = find_in(part, hash, operator_id, settings, key);
  if (found == part.entries.end()) {
    ++part.misses;
    return nullptr;
  }
  ++part.hits;
  if (found != part.entries.begin()) {
    part.entries.splice(part.entries.begin(), part.entries, found);
  }
  return found->metadata;
}

void MetadataCache::insert(uint64_t operator_id, uint64_t settings,
                           std::span<const Word> key,
                           std::shared_ptr<const CallMetadata> metadata) {
  const uint64_t hash = hash_of(operator_id, settings, key);
  Part& part = this->part(hash);
  // Made, and what is too much destroyed, without the lock.
  std::list<Entry> fresh;
  fresh.push_front({hash,
                    operator_id,
                    settings,
                    {key.begin(), key.end()},
                    std::move(metadata)});
  std::list<Entry> gone;
  const std::lock_guard lock(part.mutex);
  if (find_in(part, hash, operator_id, settings, key) != part.entries.end()) {
    return;  // another thread was first, with the same answer
  }
  part.by_hash.emplace(hash, fresh.begin());  // first: it may throw
  part.entries.splice(part.entries.begin(), fresh);
  if (part.entries.size() <= part_capacity_) return;
  const auto oldest = std::prev(part.entries.end());
  const auto [begin, end] = part.by_hash.equal_range(oldest->hash);
  part.by_hash.erase(std::find_if(
      begin, end, [&](const auto& item) { return item.second == oldest; }));
  gone.splice(gone.begin(), part.entries, oldest);
  ++part.evictions;
}

void MetadataCache::clear() {
  for (Part& part : parts_) {
    std::list<Entry> gone;
    const std::lock_guard lock(part.mutex);
    part.by_hash.clear();
    gone.swap(part.entries);
  }
}

CacheStatistics MetadataCache::statistics() const {
  CacheStatistics sum{};
  for (const Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    sum.hits += part.hits;
    sum.misses += part.misses;
    sum.evictions += part.evictions;
    sum.entries += part.entries.size();
  }
  return sum;
}

}  // namespace torch_openreg::record
