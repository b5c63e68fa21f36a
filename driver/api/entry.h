// The way into the driver: what every function of the API does before and after
// its own work.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "core/call_scope.h"
#include "core/runtime.h"
#include "core/status.h"

namespace openreg::api {

// Keeps a failure as the thread's last error, with the function's name in front
// of the message. Returns the code.
orError_t finish(const char* function, const Status& status) noexcept;

// Says why the driver does not answer calls on this thread now.
Status why_not_ready();

// Whether it does.
inline Status check_ready() {
  const Runtime& runtime = Runtime::get();
  if (!DeviceCodeScope::is_active() && runtime.is_running()) [[likely]]
    return {};
  return why_not_ready();
}

// Runs the body of an API function; no exception leaves it.
template <typename Body>
orError_t call_anytime(const char* function, const Body& body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) [[likely]]
      return orSuccess;
    return finish(function, status);
  } catch (const std::bad_alloc&) {
    return finish(function,
                  Status(orErrorOutOfMemory, "the host has no memory left"));
  } catch (const std::exception& error) {
    return finish(function, Status(orErrorInternal, error.what()));
  }
}

// The same for functions that need the driver to be running.
template <typename Body>
orError_t call(const char* function, const Body& body) noexcept {
  return call_anytime(function, [&]() -> Status {
    OPENREG_RETURN_IF_ERROR(check_ready());
    return body();
  });
}

}  // namespace openreg::api
