// The system's limits for this process: memory, address space, processors.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace openreg {

// Bytes of memory that this process may use: the machine's, or less where a
// container (cgroup) or a resource limit says so.
size_t usable_memory();

// Bytes of address space that this process can still reserve. SIZE_MAX if there
// is no limit.
size_t usable_address_space();

// The resources that a process uses; zeros if there is no such process.
struct ProcessUsage {
  size_t resident_bytes = 0;
  size_t threads = 0;
};
ProcessUsage process_usage(pid_t process);

// Processors that this process may run on; at least 1.
int usable_processors();

// The processor's clock in kHz, 0 if the system does not report it.
int processor_clock_khz();

}  // namespace openreg
