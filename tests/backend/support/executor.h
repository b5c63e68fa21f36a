// The executor's kernels, called as a device calls them, without a driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/simulation/record/writer.h"
#include "openreg/kernel.h"

namespace torch_openreg::test {

// What a kernel has answered.
struct Answer {
  orError_t code = orSuccess;
  std::string message;
  std::vector<std::byte> reply;
};

// A device of a few pages of memory. Its addresses are not those of the memory,
// so a kernel that does not translate one crashes. Not thread-safe.
class FakeDevice {
 public:
  static constexpr uint64_t kBase = uint64_t{1} << 46;
  static constexpr size_t kBytes = 16384;

  FakeDevice();

  // Runs the kernel of the executor that has this name.
  Answer run(const char* kernel, std::span<const std::byte> arguments);
  Answer run_operator(std::span<const record::Word> words) {
    return run("run_operator", std::as_bytes(words));
  }

  // The device's memory at an offset, as floats.
  float* floats(size_t offset);

 private:
  std::vector<std::byte> memory_;
};

}  // namespace torch_openreg::test
