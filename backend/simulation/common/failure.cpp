#include "backend/simulation/common/failure.h"

#include <c10/util/Exception.h>

#include <array>
#include <utility>

namespace torch_openreg {

namespace {

// Between what went wrong and the call.
constexpr std::string_view kCallMark = "\n  in ";

constexpr c10::SourceLocation kOnDevice{"kernel", "openreg", 0};

template <typename Error>
[[noreturn]] void raise(std::string text) {
  throw Error(kOnDevice, std::move(text));
}

template <typename Error>
bool is(const std::exception& error) {
  return dynamic_cast<const Error*>(&error) != nullptr;
}

struct Kind {
  std::string_view name;
  bool (*matches)(const std::exception&);
  void (*raise)(std::string);
};

// The special ones first: all derive from c10::Error.
constexpr std::array kKinds = {
    Kind{"IndexError", &is<c10::IndexError>, &raise<c10::IndexError>},
    Kind{"ValueError", &is<c10::ValueError>, &raise<c10::ValueError>},
    Kind{"TypeError", &is<c10::TypeError>, &raise<c10::TypeError>},
    Kind{"NotImplementedError", &is<c10::NotImplementedError>,
         &raise<c10::NotImplementedError>},
    Kind{"LinAlgError", &is<c10::LinAlgError>, &raise<c10::LinAlgError>},
    Kind{"OutOfMemoryError", &is<c10::OutOfMemoryError>,
         &raise<c10::OutOfMemoryError>},
    Kind{"RuntimeError", [](const std::exception&) { return true; },
         &raise<c10::Error>},
};

}  // namespace

std::string describe_failure(const std::exception& error,
                             std::string_view call) {
  const auto* const known = dynamic_cast<const c10::Error*>(&error);
  std::string text =
      known != nullptr ? known->what_without_backtrace() : error.what();
  if (!call.empty()) text.append(kCallMark).append(call);
  for (const Kind& kind : kKinds) {
    if (kind.matches(error)) return std::string(kind.name) + ": " + text;
  }
  return text;
}

void rethrow_failure(std::string_view text) {
  // The first name is the type's: the message behind it may have others.
  const Kind* found = nullptr;
  size_t first = std::string_view::npos;
  for (const Kind& kind : kKinds) {
    const size_t start = text.find(std::string(kind.name) + ": ");
    if (start >= first) continue;
    first = start;
    found = &kind;
  }
  if (found == nullptr) return;
  const std::string_view message = text.substr(first + found->name.size() + 2);
  found->raise(std::string(message.substr(0, message.rfind(kCallMark))));
}

}  // namespace torch_openreg
