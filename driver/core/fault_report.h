// What the process says when the host touches device memory, before it dies.
#pragma once

namespace openreg {

// Installs the handler for SIGSEGV and SIGBUS, once. It reports faults at
// device addresses and leaves every fault to the handler that was there before.
void install_fault_report();

}  // namespace openreg
