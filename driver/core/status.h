// The result of an operation inside the driver: a code of the public API and,
// for failures, a message that a user can act on. Not for C callers, who get
// the code and find the message in the thread's last error.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "openreg/error.h"

namespace openreg {

// The highest code of orError_t.
inline constexpr orError_t kLastError = orErrorAssert;

// Whether `code` is one of orError_t and no success.
constexpr bool is_failure(orError_t code) {
  return code > orSuccess && code <= kLastError;
}

// A success is a null pointer: functions hand many of them on.
class [[nodiscard]] Status {
 public:
  // Success.
  Status() = default;

  // `code` is not orSuccess.
  Status(orError_t code, std::string message)
      : failure_(std::make_unique<Failure>(code, std::move(message))) {}

  Status(const Status& other)
      : failure_(other.ok() ? nullptr
                            : std::make_unique<Failure>(*other.failure_)) {}
  Status& operator=(const Status& other) { return *this = Status(other); }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return failure_ == nullptr; }
  orError_t code() const { return ok() ? orSuccess : failure_->code; }
  // Empty for a success.
  const std::string& message() const;

 private:
  struct Failure {
    orError_t code;
    std::string message;
  };
  std::unique_ptr<Failure> failure_;
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
