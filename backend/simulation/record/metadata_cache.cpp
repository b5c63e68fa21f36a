#include "backend/simulation/record/metadata_cache.h"

#include <algorithm>
#include <functional>
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

MetadataCache::Entry::Entry(uint64_t call_hash, const Call& call,
                            std::shared_ptr<const CallMetadata> value)
    : hash(call_hash),
      operator_id(call.operator_id),
      settings(call.settings),
      key_words(call.key.size()),
      metadata(std::move(value)) {
  const size_t fitting = std::min(key_words, key_start.size());
  std::ranges::copy(call.key.first(fitting), key_start.begin());
  const auto rest = call.key.subspan(fitting);
  key_rest.assign(rest.begin(), rest.end());
}

bool MetadataCache::Entry::is_of(const Call& call) const {
  if (operator_id != call.operator_id || settings != call.settings ||
      key_words != call.key.size()) {
    return false;
  }
  const size_t fitting = std::min(key_words, key_start.size());
  return std::equal(key_start.begin(), key_start.begin() + fitting,
                    call.key.begin()) &&
         std::ranges::equal(key_rest, call.key.subspan(fitting));
}

size_t MetadataCache::Part::find(uint64_t hash, const Call& call) const {
  size_t place = first_of(hash);
  while (places[place].entry != nullptr &&
         (places[place].hash != hash || !places[place].entry->is_of(call))) {
    place = next(place);
  }
  return place;
}

void MetadataCache::Part::put(std::unique_ptr<Entry> entry) {
  size_t place = first_of(entry->hash);
  while (places[place].entry != nullptr) place = next(place);
  places[place] = {entry->hash, std::move(entry)};
}

void MetadataCache::Part::grow() {
  std::vector<Place> before(places.size() * 2);
  before.swap(places);
  for (Place& place : before) {
    if (place.entry != nullptr) put(std::move(place.entry));
  }
}

void MetadataCache::Part::add(std::unique_ptr<Entry> entry) {
  if (2 * (entries + 1) > places.size()) grow();
  entry->used = ++clock;
  uses.push_back({clock, entry.get()});
  std::ranges::push_heap(uses, std::greater());
  put(std::move(entry));
  ++entries;
}

// Moves up what stands behind it, so that no search ends too early.
std::unique_ptr<MetadataCache::Entry> MetadataCache::Part::take(
    const Entry* entry) {
  size_t free = first_of(entry->hash);
  while (places[free].entry.get() != entry) free = next(free);
  std::unique_ptr<Entry> taken = std::move(places[free].entry);
  const size_t mask = places.size() - 1;
  for (size_t i = next(free); places[i].entry != nullptr; i = next(i)) {
    const size_t distance = (i - first_of(places[i].hash)) & mask;
    if (distance < ((i - free) & mask)) continue;  // it stands before `free`
    places[free] = std::move(places[i]);
    free = i;
  }
  --entries;
  return taken;
}

std::unique_ptr<MetadataCache::Entry> MetadataCache::Part::take_oldest() {
  while (true) {
    std::ranges::pop_heap(uses, std::greater());
    Use& oldest = uses.back();
    if (oldest.used == oldest.entry->used) {
      const Entry* const entry = oldest.entry;
      uses.pop_back();
      ++evictions;
      return take(entry);
    }
    oldest.used = oldest.entry->used;
    std::ranges::push_heap(uses, std::greater());
  }
}

MetadataCache::MetadataCache(size_t capacity)
    : part_capacity_(std::max<size_t>(1, capacity / kParts)) {
  constexpr size_t kFirstPlaces = 16;
  for (Part& part : parts_) part.places.resize(kFirstPlaces);
}

std::shared_ptr<const CallMetadata> MetadataCache::find(
    uint64_t operator_id, uint64_t settings, std::span<const Word> key) {
  const uint64_t hash = hash_of(operator_id, settings, key);
  Part& part = this->part(hash);
  const std::lock_guard lock(part.mutex);
  Entry* const found =
      part.places[part.find(hash, {operator_id, settings, key})].entry.get();
  if (found == nullptr) {
    ++part.misses;
    return nullptr;
  }
  ++part.hits;
  found->used = ++part.clock;
  return found->metadata;
}

void MetadataCache::insert(uint64_t operator_id, uint64_t settings,
                           std::span<const Word> key,
                           std::shared_ptr<const CallMetadata> metadata) {
  const uint64_t hash = hash_of(operator_id, settings, key);
  const Call call{operator_id, settings, key};
  Part& part = this->part(hash);
  // Made, and what is too much destroyed, without the lock.
  auto fresh = std::make_unique<Entry>(hash, call, std::move(metadata));
  std::unique_ptr<Entry> gone;
  const std::lock_guard lock(part.mutex);
  if (part.places[part.find(hash, call)].entry != nullptr) {
    return;  // another thread was first, with the same answer
  }
  part.add(std::move(fresh));
  if (part.entries > part_capacity_) gone = part.take_oldest();
}

void MetadataCache::clear() {
  for (Part& part : parts_) {
    std::vector<Place> gone;
    const std::lock_guard lock(part.mutex);
    gone.resize(part.places.size());
    gone.swap(part.places);
    part.uses.clear();
    part.entries = 0;
  }
}

CacheStatistics MetadataCache::statistics() const {
  CacheStatistics sum{};
  for (const Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    sum.hits += part.hits;
    sum.misses += part.misses;
    sum.evictions += part.evictions;
    sum.entries += part.entries;
  }
  return sum;
}

}  // namespace torch_openreg::record
