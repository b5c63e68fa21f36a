#include "backend/runtime/check.h"

#include <new>
#include <string>

namespace torch_openreg::detail {

namespace {

std::string describe(orError_t code, const char* call) {
  std::string text = "OpenReg error: ";
  text += orGetErrorString(code);
  const std::string message = orGetLastErrorMessage();
  if (!message.empty()) text += "\n" + message;
  text += std::string("\n(") + orGetErrorName(code) + " from " + call + ")";
  const bool is_of_kernel = code == orErrorLaunchFailure ||
                            code == orErrorIllegalAddress ||
                            code == orErrorAssert;
  if (is_of_kernel &&
      message.find(OPENREG_EARLIER_FAILURE) != std::string::npos) {
    text +=
        "\nThe failure may have happened earlier: kernels run asynchronously. "
        "Set OPENREG_LAUNCH_BLOCKING=1 to see it at the call that caused it.";
  }
  return text;
}

}  // namespace

void throw_error(orError_t code, const char* call, c10::SourceLocation where) {
  std::string text = describe(code, call);
  orGetLastError();  // the exception tells it from here on
  if (code == orErrorOutOfMemory) {
    throw c10::OutOfMemoryError(where, std::move(text));
  }
  throw c10::AcceleratorError(where, code, std::move(text));
}

void warn_error(orError_t code, const char* call) noexcept {
  try {
    const std::string text = describe(code, call);
    orGetLastError();
    warn(text);
  } catch (const std::bad_alloc&) {
    // No memory to say it with.
  }
}

}  // namespace torch_openreg::detail

namespace torch_openreg {

bool is_ready(orError_t code, const char* call) {
  if (code == orSuccess) return true;
  if (code != orErrorNotReady) {
    detail::throw_error(code, call,
                        {__func__, __FILE__, static_cast<uint32_t>(__LINE__)});
  }
  orGetLastError();
  return false;
}

}  // namespace torch_openreg
