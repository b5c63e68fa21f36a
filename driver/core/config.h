// Reads the environment variables of the devices. The table of variables is in
// docs/driver.md.
#pragma once

#include <chrono>
#include <cstddef>

#include "core/status.h"

namespace openreg {

inline constexpr size_t kMemoryGrain = size_t{2} << 20;  // a huge page

// When and how often a kernel's failure is reported.
enum class ErrorMode {
  kEarly,  // as soon as possible, once; the device goes on
  kGpu,    // as a GPU: asynchronously, and until the device is reset
};

// Where a device runs.
enum class Driver {
  kInprocess,  // threads of this process
  kIsolated,   // a process of its own
};

struct Config {
  Driver driver = Driver::kInprocess;
  int devices = 2;
  size_t memory_per_device = 0;  // bytes, a multiple of kMemoryGrain
  size_t address_share = 0;      // address space that one device may take
  ErrorMode errors = ErrorMode::kEarly;
  bool launch_blocking = false;
  // How long a device process may be silent; 0: for ever.
  std::chrono::milliseconds heartbeat_limit{1000};
  bool fault_handler = true;
};

// Reads the OPENREG_* variables into `config`.
//   orErrorNotInitialized  a value is not valid; the message names it
Status read_config(Config* config);

// Reads a size such as "4GiB", which "4G" is, too, "512 MB" or "1048576".
//   orErrorInvalidValue  anything else, or more than a size_t holds
Status parse_size(const char* text, size_t* size);

}  // namespace openreg
