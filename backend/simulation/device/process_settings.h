// The settings of the process that the executor runs in.
#pragma once

#include <c10/macros/Macros.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "backend/simulation/common/settings.h"

namespace torch_openreg::device {

// Note [Following the host's settings]
// Kernels read many settings from PyTorch's context, of which there is one a
// process. The host's setters wait until nothing is queued, so all that runs at
// a time was called under the same settings; every record says which. Where the
// executor is in a process of its own, the first record after a change brings
// that process's context up to date. Where it is in the host's, the context is
// up to date by itself, and must not be written: a record that another thread
// has queued in the meantime would undo the program's setting.

namespace detail {
extern std::atomic<uint64_t> followed_settings;
void follow_settings_slowly(uint64_t word);
}  // namespace detail

// Tells which process the records come from. Before that, none is followed.
// Thread-safe.
void set_host_process(pid_t host);

// Makes the settings of this process those that the word holds; nothing to
// do if they are those of the last call. Throws std::invalid_argument for a
// word that no host writes. Thread-safe.
inline void follow_settings(uint64_t word) {
  const uint64_t wanted = word & setting::kOfProcess;
  if (C10_LIKELY(wanted ==
                 detail::followed_settings.load(std::memory_order_relaxed))) {
    return;
  }
  detail::follow_settings_slowly(wanted);
}

}  // namespace torch_openreg::device
