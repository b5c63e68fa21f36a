// Mutated records never crash the reader, and what it accepts is what a writer
// would have written. The seed is fixed; OPENREG_FUZZ_SEED sets another and
// OPENREG_STRESS_SCALE more inputs. Every report names the seed and the input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "support/environment.h"
#include "support/fuzz_record.h"
#include "support/mutator.h"
#include "support/samples.h"

namespace torch_openreg::record::test {

namespace {

constexpr size_t kInputs = 500'000;

std::string hex(const std::vector<uint8_t>& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, i % 8 == 0 ? "\n%02x" : " %02x",
                  bytes[i]);
    text += digits;
  }
  return text;
}

TEST(RecordFuzzStressTest, AMutatedRecordIsReadOrRefused) {
  const size_t inputs = kInputs * stress_scale();
  Mutator mutator(fuzz_seed(), sample_records());
  size_t accepted = 0;
  for (size_t i = 0; i < inputs; ++i) {
    const std::vector<uint8_t> bytes = mutator.next();
    if (fuzz_record(bytes.data(), bytes.size())) ++accepted;
    ASSERT_FALSE(HasFailure())
        << "input " << i << " of OPENREG_FUZZ_SEED=" << fuzz_seed() << ':'
        << hex(bytes);
  }
  // Both happen often, or the mutations are too mild or too wild.
  EXPECT_GT(accepted, inputs / 20);
  EXPECT_LT(accepted, inputs / 2);
}

TEST(RecordFuzzStressTest, RandomWordsAreRefused) {
  std::mt19937_64 random(fuzz_seed());
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < kInputs / 20 * stress_scale(); ++i) {
    bytes.resize(random() % 512);
    std::ranges::generate(bytes,
                          [&] { return static_cast<uint8_t>(random()); });
    EXPECT_FALSE(fuzz_record(bytes.data(), bytes.size()));
  }
}

TEST(RecordFuzzStressTest, AnyBitMayFlip) {
  for (const bool values_apart : {false, true}) {
    Record record = full_record(values_apart);
    for (size_t bit = 0; bit < record.size() * 64; ++bit) {
      record[bit / 64] ^= Word{1} << bit % 64;
      is_well_formed(record);
      ASSERT_FALSE(HasFailure()) << "bit " << bit;
      record[bit / 64] ^= Word{1} << bit % 64;
    }
    EXPECT_TRUE(is_well_formed(record));
  }
}

}  // namespace

}  // namespace torch_openreg::record::test
