// A growing list of words with room on the stack.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "backend/simulation/record/format.h"

namespace torch_openreg::record {

// Most records fit into the room that it brings, so that a launch allocates
// nothing. Not thread-safe.
class Words {
 public:
  Words() = default;
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  size_t size() const { return size_; }
  const Word* data() const { return data_; }
  Word& operator[](size_t index) { return data_[index]; }
  std::span<const Word> view() const { return {data_, size_}; }

  void push(Word word) {
    if (size_ == capacity_) grow(1);
    data_[size_++] = word;
  }

  // Room for `count` more words, to be written at once.
  Word* extend(size_t count) {
    if (capacity_ - size_ < count) grow(count);
    Word* const place = data_ + size_;
    size_ += count;
    return place;
  }

  template <typename Number>
  void append(std::span<const Number> numbers) {
    static_assert(sizeof(Number) == sizeof(Word));
    if (numbers.empty()) return;
    std::memcpy(extend(numbers.size()), numbers.data(), numbers.size_bytes());
  }

  // The bytes, padded with zeros.
  void append_text(std::string_view text) {
    if (text.empty()) return;
    const size_t words = (text.size() + sizeof(Word) - 1) / sizeof(Word);
    Word* const place = extend(words);
    place[words - 1] = 0;
    std::memcpy(place, text.data(), text.size());
  }

 private:
  void grow(size_t more) {
    const size_t wanted = std::max(capacity_ * 2, size_ + more);
    auto room = std::make_unique<Word[]>(wanted);
    std::copy_n(data_, size_, room.get());
    heap_ = std::move(room);
    data_ = heap_.get();
    capacity_ = wanted;
  }

  static constexpr size_t kOwnRoom = 96;
  alignas(16) std::array<Word, kOwnRoom> own_;  // not initialised
  std::unique_ptr<Word[]> heap_;
  Word* data_ = own_.data();
  size_t size_ = 0;
  size_t capacity_ = kOwnRoom;
};

}  // namespace torch_openreg::record
