// From the driver's codes to PyTorch's exceptions.
#pragma once

#include <c10/util/Exception.h>

#include "backend/export.h"
#include "openreg/error.h"

namespace torch_openreg::detail {

// Throws c10::AcceleratorError with the code, the driver's message and `call`,
// or c10::OutOfMemoryError for orErrorOutOfMemory.
[[noreturn]] TORCH_OPENREG_API void throw_error(orError_t code,
                                                const char* call,
                                                c10::SourceLocation where);

// Says the same as a warning.
TORCH_OPENREG_API void warn_error(orError_t code, const char* call) noexcept;

}  // namespace torch_openreg::detail

namespace torch_openreg {

// Warns where throwing is not allowed. A handler of warnings may throw
// (Python's does, with warnings as errors); here nobody can receive that.
template <typename... Parts>
void warn(const Parts&... parts) noexcept {
  try {
    TORCH_WARN(parts...);
  } catch (...) {
    // See above.
  }
}

// The answer of a query: false for orErrorNotReady, which is then no longer the
// thread's last error; throws for every other failure.
TORCH_OPENREG_API bool is_ready(orError_t code, const char* call);

}  // namespace torch_openreg

// Calls the driver and throws if it fails.
#define OPENREG_CHECK(call)                                       \
  do {                                                            \
    const orError_t openreg_code_ = (call);                       \
    if (C10_UNLIKELY(openreg_code_ != orSuccess)) {               \
      ::torch_openreg::detail::throw_error(                       \
          openreg_code_, #call,                                   \
          {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}); \
    }                                                             \
  } while (false)

// The same where throwing is not allowed.
#define OPENREG_WARN(call)                                       \
  do {                                                           \
    const orError_t openreg_code_ = (call);                      \
    if (C10_UNLIKELY(openreg_code_ != orSuccess)) {              \
      ::torch_openreg::detail::warn_error(openreg_code_, #call); \
    }                                                            \
  } while (false)
