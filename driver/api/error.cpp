#include "openreg/error.h"

#include <array>
#include <string>

#include "api/entry.h"

namespace {

struct ErrorText {
  const char* name;
  const char* text;
};

// In the order of the codes.
constexpr std::array<ErrorText, 12> kErrors = {{
    {"orSuccess", "no error"},
    {"orErrorInvalidValue", "invalid argument"},
    {"orErrorInvalidDevice", "invalid device ordinal"},
    {"orErrorInvalidHandle", "invalid resource handle"},
    {"orErrorOutOfMemory", "out of memory"},
    {"orErrorNotReady", "device not ready"},
    {"orErrorNotSupported", "operation not supported"},
    {"orErrorIllegalAddress", "an illegal memory access was encountered"},
    {"orErrorLaunchFailure", "a kernel failed"},
    {"orErrorDeviceLost", "the device is lost"},
    {"orErrorNotInitialized", "the driver is not initialized"},
    {"orErrorInternal", "internal error of the driver"},
}};
static_assert(kErrors.size() == orErrorInternal + 1);

constexpr ErrorText kUnrecognized = {"unrecognized error code",
                                     "unrecognized error code"};

const ErrorText& find_text(orError_t error) {
  const auto index = static_cast<size_t>(error);
  return index < kErrors.size() ? kErrors[index] : kUnrecognized;
}

struct LastError {
  orError_t code = orSuccess;
  std::string message;
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

}  // namespace

namespace openreg::api {

orError_t finish(const char* function, const Status& status) noexcept {
  LastError& last = last_error();
  last.code = status.code();
  try {
    last.message = std::string(function) + ": " + status.message();
  } catch (const std::bad_alloc&) {
    last.message.clear();
  }
  return status.code();
}

}  // namespace openreg::api

const char* orGetErrorName(orError_t error) { return find_text(error).name; }

const char* orGetErrorString(orError_t error) { return find_text(error).text; }

orError_t orGetLastError(void) {
  return std::exchange(last_error().code, orSuccess);
}

orError_t orPeekAtLastError(void) { return last_error().code; }

const char* orGetLastErrorMessage(void) { return last_error().message.c_str(); }
