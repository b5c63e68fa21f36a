// Makes malformed records out of well-formed ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "support/samples.h"

namespace torch_openreg::record::test {

// The same seed and corpus give the same records, on every machine. Not
// thread-safe.
class Mutator {
 public:
  Mutator(uint64_t seed, std::vector<Record> corpus);

  // A record of the corpus after one to four mutations, as bytes.
  std::vector<uint8_t> next();

 private:
  size_t below(size_t bound) { return random_() % bound; }
  const Record& any_record() { return corpus_[below(corpus_.size())]; }
  // Any word of the record; one of its first words every other time.
  size_t any_place();
  // A number that is likely to be at the edge of something.
  Word edge();

  void mutate();
  void flip_bit();
  void set_word();
  void set_half_word();
  void swap_words();
  void truncate();
  void splice();
  void repeat();
  void set_first_word();
  // Changes the length of a part and the header with it.
  void insert_into_part();
  void erase_from_part();

  std::mt19937_64 random_;
  const std::vector<Record> corpus_;
  Record record_;
};

}  // namespace torch_openreg::record::test
