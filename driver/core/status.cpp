#include "core/status.h"

#include <cstdarg>
#include <cstdio>

namespace openreg {

namespace {

std::string format_arguments(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (length < 0) return format;
  std::string text(static_cast<size_t>(length), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

}  // namespace

const std::string& Status::message() const {
  static const std::string& none = *new std::string;
  return ok() ? none : failure_->message;
}

Status failure(orError_t code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_arguments(format, arguments);
  va_end(arguments);
  return {code, std::move(text)};
}

std::string format_string(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_arguments(format, arguments);
  va_end(arguments);
  return text;
}

}  // namespace openreg
