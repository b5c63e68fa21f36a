// The device's side of failures that nobody waits for.
#pragma once

#include "core/status.h"
#include "core/thread_safety.h"
#include "isolated/protocol.h"

namespace openreg {

// Writes failures to the control block, where the program finds them before it
// can see that the work is done. Thread-safe.
class Reports {
 public:
  explicit Reports(wire::Control& control) : control_(control) {}

  void publish(const Status& status, bool is_sticky);

 private:
  wire::Control& control_;
  Mutex mutex_;
};

}  // namespace openreg
