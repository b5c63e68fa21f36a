#include "openreg/error.h"

#include <array>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "api/entry.h"

namespace {

struct ErrorText {
  const char* name;
  const char* text;
};

// In the order of the codes.
constexpr std::array<ErrorText, 13> kErrors = {{
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
    {"orErrorAssert", "device-side assert triggered"},
}};
static_assert(kErrors.size() == openreg::kLastError + 1);

constexpr ErrorText kUnrecognized = {"unrecognized error code",
                                     "unrecognized error code"};

const ErrorText& find_text(orError_t error) {
  const auto index = static_cast<size_t>(error);
  return index < kErrors.size() ? kErrors[index] : kUnrecognized;
}

// Plain memory, so that it can be used to the very end of a thread: destructors
// of the program's own objects may still call the driver.
struct LastError {
  orError_t code = orSuccess;
  std::array<char, 1024> message{};
};
static_assert(std::is_trivially_destructible_v<LastError>);

thread_local constinit LastError last_error;

}  // namespace

namespace openreg::api {

orError_t finish(const char* function, const Status& status) noexcept {
  last_error.code = status.code();
  std::snprintf(last_error.message.data(), last_error.message.size(), "%s: %s",
                function, status.message().c_str());
  return status.code();
}

}  // namespace openreg::api

const char* orGetErrorName(orError_t error) { return find_text(error).name; }

const char* orGetErrorString(orError_t error) { return find_text(error).text; }

orError_t orGetLastError(void) {
  return std::exchange(last_error.code, orSuccess);
}

orError_t orPeekAtLastError(void) { return last_error.code; }

const char* orGetLastErrorMessage(void) { return last_error.message.data(); }
