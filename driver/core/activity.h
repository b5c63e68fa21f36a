// Keeps what a device process does, to be read when it has died.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace openreg {

// A short text in memory that the program can still read when the process is
// gone. Thread-safe: of texts that are set at a time, any word may win.
class Activity {
 public:
  void set(std::string_view text) noexcept {
    const size_t size = std::min(text.size(), kBytes);
    for (size_t i = 0; i * kWord < size; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i * kWord,
                  std::min(kWord, size - i * kWord));
      words_[i].store(word, std::memory_order_relaxed);
    }
    size_.store(static_cast<uint32_t>(size), std::memory_order_relaxed);
  }

  // Whoever wrote it: no longer than it can be, and all of it can be shown.
  std::string get() const {
    std::string text(std::min<size_t>(size_.load(), kBytes), '\0');
    for (size_t i = 0; i * kWord < text.size(); ++i) {
      const uint64_t word = words_[i].load(std::memory_order_relaxed);
      std::memcpy(text.data() + i * kWord, &word,
                  std::min(kWord, text.size() - i * kWord));
    }
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; },
        '?');
    return text;
  }

 private:
  static constexpr size_t kWord = sizeof(uint64_t);
  static constexpr size_t kBytes = 120;

  std::atomic<uint32_t> size_{0};
  std::array<std::atomic<uint64_t>, kBytes / kWord> words_{};
};

// Where this process says what it does; null if nobody wants to know. A device
// process sets it before it does anything else.
inline Activity* current_activity = nullptr;

}  // namespace openreg
