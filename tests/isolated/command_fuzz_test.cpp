// Hostile commands, in this process, so that the sanitizers see what the device
// does with them. Guided by coverage: a script that reaches a place for the
// first time is changed further. The seed is fixed; OPENREG_FUZZ_SEED sets
// another, OPENREG_STRESS_SCALE more scripts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/coverage.h"
#include "support/fuzz_device.h"

namespace openreg::test {
namespace {

constexpr size_t kScripts = 3000;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

// Runs a script on a device of its own. Every command is taken by a queue,
// changes the device, or is reported.
void run(const Script& script) {
  FuzzDevice device;
  for (const SentCommand& command : script) {
    const uint64_t taken = device.taken(command.header.queue);
    const uint64_t failures = device.failures();
    device.send(command);
    const bool is_device_command =
        command.header.kind >= wire::Kind::kAddMemory &&
        command.header.kind <= wire::Kind::kRetireQueue;
    const bool was_taken = device.taken(command.header.queue) != taken;
    EXPECT_TRUE(was_taken || is_device_command || device.failures() > failures)
        << "kind " << static_cast<int>(command.header.kind) << " of queue "
        << command.header.queue;
  }
  EXPECT_TRUE(device.answers());
}

TEST(CommandFuzzTest, EverySampleIsTaken) {
  for (const Script& script : sample_scripts()) {
    FuzzDevice device;
    for (const SentCommand& command : script) device.send(command);
    EXPECT_TRUE(device.answers());
  }
}

TEST(CommandFuzzStressTest, AMutatedCommandIsTakenOrRefused) {
  const uint64_t seed = number_from("OPENREG_FUZZ_SEED", 20261116);
  const size_t scripts = kScripts * number_from("OPENREG_STRESS_SCALE", 1);
  ScriptMutator mutator(seed, sample_scripts());
  for (const Script& script : sample_scripts()) run(script);
  const size_t at_first = covered_places();
  for (size_t i = 0; i < scripts; ++i) {
    Script script = mutator.next();
    const size_t before = covered_places();
    run(script);
    ASSERT_FALSE(::testing::Test::HasFailure())
        << "script " << i << " of OPENREG_FUZZ_SEED=" << seed;
    if (covered_places() > before) mutator.keep(std::move(script));
  }
  // The guidance has something to guide: refusals are places of their own.
  EXPECT_GT(covered_places(), at_first);
  RecordProperty("places", static_cast<int>(covered_places()));
  RecordProperty("corpus", static_cast<int>(mutator.corpus_size()));
}

}  // namespace
}  // namespace openreg::test
