// Stacks that PyTorch has gathered, as Python sees them.
#pragma once

#include <torch/csrc/profiler/combined_traceback.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings/module.h"

// From torch/csrc/profiler/python/combined_traceback.h, which cannot be
// included: it needs a JSON library that PyTorch does not ship.
namespace torch {
std::vector<pybind11::object> py_symbolize(
    std::vector<CapturedTraceback*>& to_symbolize);
}  // namespace torch

namespace torch_openreg::bindings {

using Context = std::shared_ptr<c10::GatheredContext>;

// Gathers stacks and turns them into frames all at once,
// since they have most frames in common. The contexts must outlive it.
class Frames {
 public:
  // Gives `owner` a key "frames", empty without a context.
  void add(py::dict owner, const Context& context) {
    if (context == nullptr) {
      owner["frames"] = py::list();
      return;
    }
    tracebacks_.push_back(torch::getCapturedTracebackFromContext(context));
    owners_.push_back(std::move(owner));
  }

  void resolve() {
    const std::vector<py::object> frames = torch::py_symbolize(tracebacks_);
    for (size_t i = 0; i < owners_.size(); ++i) {
      owners_[i]["frames"] = frames.at(i);
    }
  }

 private:
  std::vector<torch::CapturedTraceback*> tracebacks_;
  std::vector<py::dict> owners_;
};

}  // namespace torch_openreg::bindings
