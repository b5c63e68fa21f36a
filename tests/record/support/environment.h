// What the environment asks of the tests, as of the driver's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_openreg::record::test {

// OPENREG_FUZZ_SEED, or a fixed one.
uint64_t fuzz_seed();

// OPENREG_STRESS_SCALE: how many times as long the long tests run.
size_t stress_scale();

}  // namespace torch_openreg::record::test
