#include "support/environment.h"

#include <algorithm>
#include <cstdlib>

namespace torch_openreg::record::test {

namespace {

uint64_t number(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

uint64_t fuzz_seed() { return number("OPENREG_FUZZ_SEED", 20260713); }

size_t stress_scale() {
  return std::max<size_t>(1, number("OPENREG_STRESS_SCALE", 1));
}

}  // namespace torch_openreg::record::test
