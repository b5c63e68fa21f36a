#include "api/entry.h"

namespace openreg::api {

Status why_not_ready() {
  if (DeviceCodeScope::is_active()) {
    return failure(orErrorNotSupported,
                   "the driver can't be called from a kernel or a host "
                   "function");
  }
  const Runtime& runtime = Runtime::get();
  if (!runtime.status().ok()) return runtime.status();
  switch (runtime.state()) {
    case RuntimeState::kRunning:
      return {};
    case RuntimeState::kForked:
      return failure(orErrorNotInitialized,
                     "this process was forked after its parent had used the "
                     "driver: start it with spawn instead of fork");
    case RuntimeState::kEnding:
      return failure(orErrorNotInitialized, "the program is ending");
  }
  return failure(orErrorInternal, "no such state");
}

}  // namespace openreg::api
