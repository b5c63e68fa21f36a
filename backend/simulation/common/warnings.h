// Warnings of operators that are run once more than the program knows of.
#pragma once

#include <c10/util/Exception.h>

#include <utility>
#include <vector>

namespace torch_openreg {

// Keeps the warnings of this thread while it lives. Not thread-safe.
class CollectedWarnings {
 public:
  CollectedWarnings() : guard_(&handler_) {}

  bool empty() const { return handler_.warnings.empty(); }
  std::vector<c10::Warning> take() { return std::move(handler_.warnings); }

 private:
  struct Handler final : c10::WarningHandler {
    void process(const c10::Warning& warning) override {
      warnings.push_back(warning);
    }
    std::vector<c10::Warning> warnings;
  };

  Handler handler_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

// Drops the warnings of this thread while it lives. Not thread-safe.
class NoWarnings {
 public:
  NoWarnings() : guard_(&handler_) {}

 private:
  struct Handler final : c10::WarningHandler {
    void process(const c10::Warning& /*warning*/) override {}
  };

  Handler handler_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace torch_openreg
