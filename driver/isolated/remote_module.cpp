#include "isolated/remote_module.h"

#include <cstdlib>
#include <span>

namespace openreg {

namespace {

Payload to_payload(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Status RemoteModule::load(const char* path) {
  // The device process has another working directory, perhaps.
  char* const absolute = realpath(path, nullptr);
  std::string strings = absolute != nullptr ? absolute : path;
  std::free(absolute);
  strings.push_back('\0');
  // Messages name the path as it was given.
  strings.append(path).push_back('\0');
  for (const std::string& library : loaded_needs(path)) {
    strings.append(library).push_back('\0');
  }
  OPENREG_RETURN_IF_ERROR(requests_->request(wire::Kind::kLoadModule, {number_},
                                             to_payload(strings)));
  loaded_ = true;
  return {};
}

RemoteModule::~RemoteModule() {
  if (!loaded_) return;
  // A device that is gone has unloaded everything.
  static_cast<void>(
      requests_->request(wire::Kind::kUnloadModule, {number_}, {}));
}

Status RemoteModule::find(const char* name,
                          std::shared_ptr<const Kernel>* kernel) {
  const MutexLock lock(mutex_);
  auto place = found_.find(name);
  if (place == found_.end()) {
    std::string text = name;
    text.push_back('\0');
    OPENREG_RETURN_IF_ERROR(requests_->request(
        wire::Kind::kFindKernel, {number_, next_}, to_payload(text)));
    place = found_.emplace(name, next_++).first;
  }
  *kernel = std::make_shared<Kernel>(name, RemoteCode{number_, place->second},
                                     shared_from_this());
  return {};
}

}  // namespace openreg
