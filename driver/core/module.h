// Modules and functions, as handles name them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/hardware.h"
#include "core/thread_safety.h"

namespace openreg {

class Context;

// A kernel of a module. Immutable.
struct Function {
  Context& context;
  std::shared_ptr<const Kernel> kernel;
  const void* module;  // the handle of its module
};

// A loaded module and the functions that were found in it. Thread-safe.
class Module {
 public:
  Module(Context& context, std::shared_ptr<ModuleImage> image, bool is_builtin)
      : context_(context), image_(std::move(image)), is_builtin_(is_builtin) {}

  Context& context() const { return context_; }
  ModuleImage& image() const { return *image_; }
  bool is_builtin() const { return is_builtin_; }

  // The handle of a function that was found before, or null.
  void* known_function(const std::string& name) const {
    const MutexLock lock(mutex_);
    const auto place = functions_.find(name);
    return place != functions_.end() ? place->second : nullptr;
  }

  // Keeps the handle of a function; returns the one that was there first.
  void* add_function(const std::string& name, void* handle) {
    const MutexLock lock(mutex_);
    return functions_.emplace(name, handle).first->second;
  }

 private:
  Context& context_;
  const std::shared_ptr<ModuleImage> image_;
  const bool is_builtin_;

  mutable Mutex mutex_;
  std::map<std::string, void*> functions_ GUARDED_BY(mutex_);
};

}  // namespace openreg
