// Asks the system for the state of a thread.
#pragma once

#include <sys/types.h>

namespace openreg {

// The letter of /proc/PID/task/THREAD/stat: 'R' waits for a processor or has
// one, 'D' waits for a disk, 'T' is stopped, 't' is held by a debugger, 'S'
// sleeps. '?' if there is no such thread.
char thread_state(pid_t process, pid_t thread);

}  // namespace openreg
