// A cache of the outputs' metadata, by the arguments that decide it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/simulation/record/format.h"

namespace torch_openreg::record {

// One output: a tensor as a record holds it, without its storage; empty if it
// is undefined.
struct OutputShape {
  std::vector<Word> tensor;
  uint64_t bytes = 0;

  friend bool operator==(const OutputShape&, const OutputShape&) = default;
};

// The metadata of a call's outputs. Immutable once it is in the cache.
struct CallMetadata {
  static constexpr int32_t kSingle = -1;

  // By return of the schema that is not an argument: kSingle, or the length of
  // a list.
  std::vector<int32_t> returns;
  std::vector<OutputShape> outputs;  // those of all returns, in order
  // An argument that the call writes and resizes, and the sizes it gets.
  struct Resize {
    uint32_t argument;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    uint8_t flags = 0;  // kConjugate, kNegative: left undone by the kernel

    friend bool operator==(const Resize&, const Resize&) = default;
  };
  std::vector<Resize> resizes;

  friend bool operator==(const CallMetadata&, const CallMetadata&) = default;
};

struct CacheStatistics {
  uint64_t hits;
  uint64_t misses;
  uint64_t evictions;
  uint64_t entries;
};

// A bounded map; when a part of it is full, what was used there longest ago
// goes. Thread-safe: parts with a lock each.
class MetadataCache {
 public:
  static constexpr size_t kParts = 16;

  // Holds `capacity` entries at most, each part the same share of them and one
  // at least.
  explicit MetadataCache(size_t capacity);

  // Null if nothing is known. Counts as a use.
  std::shared_ptr<const CallMetadata> find(uint64_t operator_id,
                                           uint64_t settings,
                                           std::span<const Word> key);
  // Keeps an entry that exists already.
  void insert(uint64_t operator_id, uint64_t settings,
              std::span<const Word> key,
              std::shared_ptr<const CallMetadata> metadata);

  // Forgets the entries; the statistics go on.
  void clear();
  CacheStatistics statistics() const;

  // Its first bits choose the part.
  static uint64_t hash_of(uint64_t operator_id, uint64_t settings,
                          std::span<const Word> key);

 private:
  // A call. What is asked for at every launch lies together.
  struct Call {
    uint64_t operator_id;
    uint64_t settings;
    std::span<const Word> key;
  };
  struct Entry {
    Entry(uint64_t hash, const Call& call,
          std::shared_ptr<const CallMetadata> value);
    bool is_of(const Call& call) const;

    const uint64_t hash;
    uint64_t used = 0;  // the part's clock at the last use
    const uint64_t operator_id;
    const uint64_t settings;
    const size_t key_words;
    std::array<Word, 24> key_start;
    std::vector<Word> key_rest;  // what does not fit there
    const std::shared_ptr<const CallMetadata> metadata;
  };
  // A place of the table: free without an entry.
  struct Place {
    uint64_t hash = 0;
    std::unique_ptr<Entry> entry;
  };
  // When an entry was used, as far as is known; it may have been used since.
  struct Use {
    uint64_t used;
    Entry* entry;
    bool operator>(const Use& other) const { return used > other.used; }
  };
  // Guarded by its mutex. The places are a table with linear probing.
  struct Part {
    // The place of the call, or the free one where it belongs.
    size_t find(uint64_t hash, const Call& call) const;
    void add(std::unique_ptr<Entry> entry);
    std::unique_ptr<Entry> take_oldest();

    mutable std::mutex mutex;
    std::vector<Place> places;  // a power of two, at most half of them taken
    std::vector<Use> uses;      // a heap: the earliest first
    size_t entries = 0;
    uint64_t clock = 0;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t evictions = 0;

   private:
    size_t next(size_t place) const {
      return (place + 1) & (places.size() - 1);
    }
    size_t first_of(uint64_t hash) const {
      return (hash >> 28) & (places.size() - 1);
    }
    void put(std::unique_ptr<Entry> entry);
    void grow();
    std::unique_ptr<Entry> take(const Entry* entry);
  };

  Part& part(uint64_t hash) { return parts_[hash >> 60]; }

  const size_t part_capacity_;
  std::array<Part, kParts> parts_;
};

}  // namespace torch_openreg::record
