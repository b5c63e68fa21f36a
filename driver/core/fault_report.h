// Writes a report if the host touches device memory, before the process dies.
#pragma once

namespace openreg {

// Installs the handler for SIGSEGV and SIGBUS, once. It reports faults at
// device addresses and leaves every fault to the handler that was there before.
void install_fault_report();

}  // namespace openreg
