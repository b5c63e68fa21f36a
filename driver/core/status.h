// The result of an operation inside the driver: a code of the public API and,
// for failures, a message that a user can act on. Not for C callers, who get
// the code and find the message in the thread's last error.
#pragma once

#include <string>
#include <utility>

#include "openreg/error.h"

namespace openreg {

class [[nodiscard]] Status {
 public:
  // Success.
  Status() = default;

  Status(orError_t code, std::string message)
      : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == orSuccess; }
  orError_t code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  orError_t code_ = orSuccess;
  std::string message_;
};

// Makes a failure with a message in printf's notation.
[[gnu::format(printf, 2, 3)]] Status failure(orError_t code, const char* format,
                                             ...);

// A string in printf's notation.
[[gnu::format(printf, 1, 2)]] std::string format_string(const char* format,
                                                        ...);

}  // namespace openreg

// Leaves the function with the failure, if there is one.
#define OPENREG_RETURN_IF_ERROR(expression)           \
  do {                                                \
    ::openreg::Status openreg_status_ = (expression); \
    if (!openreg_status_.ok()) [[unlikely]]           \
      return openreg_status_;                         \
  } while (false)
