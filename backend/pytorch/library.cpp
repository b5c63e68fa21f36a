#include "backend/pytorch/library.h"

#include <deque>
#include <optional>
#include <utility>

namespace torch_openreg {

namespace {

torch::Library& open(torch::Library::Kind kind, std::string name_space,
                     std::optional<c10::DispatchKey> key,
                     const std::source_location& caller) {
  // Leaked: PyTorch would forget the operators of a library that is destroyed.
  static auto& libraries = *new std::deque<torch::Library>;
  return libraries.emplace_back(kind, std::move(name_space), key,
                                caller.file_name(), caller.line());
}

}  // namespace

torch::Library& define(std::string name_space, std::source_location caller) {
  return open(torch::Library::FRAGMENT, std::move(name_space), std::nullopt,
              caller);
}

torch::Library& implement(std::string name_space, c10::DispatchKey key,
                          std::source_location caller) {
  return open(torch::Library::IMPL, std::move(name_space), key, caller);
}

}  // namespace torch_openreg
