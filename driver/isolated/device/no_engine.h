// The engine of a context inside a device process.
#pragma once

#include <memory>

#include "core/context.h"
#include "core/engine.h"

namespace openreg {

// A device process has queues and modules by the program's numbers, in the
// dispatcher, and none of its own. Thread-safe: it has no state.
class NoEngine final : public Engine {
 public:
  std::shared_ptr<Queue> create_queue(int /*priority*/) override {
    return nullptr;
  }
  Status load_module(const char* /*path*/,
                     std::shared_ptr<ModuleImage>* /*image*/) override {
    return failure(orErrorNotSupported, "modules are loaded by number");
  }
  std::shared_ptr<ModuleImage> builtin_module() override { return nullptr; }
  int places() const override { return 0; }
  bool can_access_peers() const override { return false; }
};

inline std::unique_ptr<Engine> make_no_engine(Context& /*context*/) {
  return std::make_unique<NoEngine>();
}

}  // namespace openreg
