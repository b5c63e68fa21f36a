#include "backend/simulation/device/process_settings.h"

#include <mutex>
#include <stdexcept>

namespace torch_openreg::device {

namespace {

std::atomic<bool> is_apart{false};  // from the host's process

std::mutex& mutex() {
  static auto& instance = *new std::mutex;
  return instance;
}

}  // namespace

namespace detail {

std::atomic<uint64_t> followed_settings{setting::kNoWord};

void follow_settings_slowly(uint64_t word) {
  if (!setting::are_good(word)) {
    throw std::invalid_argument("a malformed launch record: settings");
  }
  const std::lock_guard lock(mutex());
  if (is_apart.load(std::memory_order_relaxed)) setting::apply(word);
  followed_settings.store(word, std::memory_order_release);
}

}  // namespace detail

void set_host_process(pid_t host) {
  const std::lock_guard lock(mutex());
  is_apart.store(host != getpid(), std::memory_order_relaxed);
  detail::followed_settings.store(setting::kNoWord, std::memory_order_release);
}

}  // namespace torch_openreg::device
