#include "support/mutator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

namespace torch_openreg::record::test {

namespace {

using Length = uint32_t Header::*;

struct Part {
  Length length;
  size_t (*at)(const Record&);
};

size_t arguments_at(const Record&) { return kArgumentsAt; }

constexpr std::array<Part, 4> kParts{{
    {&Header::argument_words, arguments_at},
    {&Header::value_words, values_at},
    {&Header::offset_words, offsets_at},
    {&Header::output_words, outputs_at},
}};

// An earlier mutation may have left a header that says anything.
bool lies_within(const Record& record, size_t at, size_t length) {
  return at <= record.size() && length <= record.size() - at;
}

std::ptrdiff_t steps(size_t count) {
  return static_cast<std::ptrdiff_t>(count);
}

}  // namespace

Mutator::Mutator(uint64_t seed, std::vector<Record> corpus)
    : random_(seed), corpus_(std::move(corpus)) {}

std::vector<uint8_t> Mutator::next() {
  record_ = any_record();
  for (size_t i = 1 + below(4); i > 0; --i) mutate();
  std::vector<uint8_t> bytes(record_.size() * sizeof(Word));
  if (!bytes.empty()) std::memcpy(bytes.data(), record_.data(), bytes.size());
  // Not every buffer ends with a word.
  if (below(100) == 0) bytes.resize(below(bytes.size() + 1));
  return bytes;
}

void Mutator::mutate() {
  if (record_.empty()) return;
  switch (below(10)) {
    case 0:
      return flip_bit();
    case 1:
      return set_word();
    case 2:
      return set_half_word();
    case 3:
      return swap_words();
    case 4:
      return truncate();
    case 5:
      return splice();
    case 6:
      return repeat();
    case 7:
      return set_first_word();
    case 8:
      return insert_into_part();
    default:
      return erase_from_part();
  }
}

size_t Mutator::any_place() {
  const size_t first =
      below(2) == 0 ? size_t{2 * kHeaderWords} : record_.size();
  return below(std::min(first, record_.size()));
}

Word Mutator::edge() {
  constexpr std::array<Word, 18> kEdges{
      0,
      1,
      2,
      63,
      kMaxDimensions,
      kMaxDimensions + 1,
      255,
      256,
      kMaxNameBytes,
      kMaxNameBytes + 1,
      kMaxStorages,
      kMaxStorages + 1,
      std::numeric_limits<int32_t>::max(),
      std::numeric_limits<uint32_t>::max(),
      Word{1} << 32,
      static_cast<Word>(std::numeric_limits<int64_t>::max()),
      Word{1} << 63,
      ~Word{0}};
  switch (below(4)) {
    case 0:
      return random_();
    case 1:
      return below(record_.size() + 2);
    default:
      return kEdges[below(kEdges.size())];
  }
}

void Mutator::flip_bit() { record_[any_place()] ^= Word{1} << below(64); }

void Mutator::set_word() { record_[any_place()] = edge(); }

void Mutator::set_half_word() {
  Word& word = record_[any_place()];
  const bool high = below(2) == 0;
  const Word half = edge() & 0xffffffff;
  word = high ? (word & 0xffffffff) | half << 32 : (word >> 32) << 32 | half;
}

void Mutator::swap_words() {
  std::swap(record_[any_place()], record_[any_place()]);
}

void Mutator::truncate() { record_.resize(below(record_.size())); }

void Mutator::splice() {
  const Record& other = any_record();
  record_.resize(below(record_.size() + 1));
  const size_t from = std::min(record_.size(), below(other.size() + 1));
  record_.insert(record_.end(), other.begin() + steps(from), other.end());
}

void Mutator::repeat() {
  const size_t at = any_place();
  const size_t count = std::min(1 + below(8), record_.size() - at);
  const Record piece(record_.begin() + steps(at),
                     record_.begin() + steps(at + count));
  record_.insert(record_.begin() + steps(at), piece.begin(), piece.end());
}

void Mutator::set_first_word() {
  const FirstWord first{
      .tag = static_cast<Tag>(below(static_cast<size_t>(Tag::kLast) + 2)),
      .dtype = static_cast<uint8_t>(below(4) == 0 ? below(256) : 0),
      .flags = static_cast<uint8_t>(below(4) == 0 ? below(256) : 0),
      .dimensions = static_cast<uint8_t>(below(4) == 0 ? edge() : below(3)),
      .number = static_cast<uint32_t>(below(4) == 0 ? edge() : below(4))};
  const size_t at = kHeaderWords + below(record_.size());
  record_[std::min(at, record_.size() - 1)] = first.pack();
}

void Mutator::insert_into_part() {
  if (record_.size() < kHeaderWords) return;
  const Part& part = kParts[below(kParts.size())];
  Header header = header_of(record_);
  const size_t at = part.at(record_);
  const size_t length = header.*part.length;
  if (!lies_within(record_, at, length)) return;
  const size_t count = 1 + below(3);
  Record fresh;
  for (size_t i = 0; i < count; ++i) fresh.push_back(edge());
  // A whole argument, every other time.
  if (below(2) == 0) {
    fresh = {static_cast<Word>(below(static_cast<size_t>(Tag::kLast) + 1))};
    header.argument_count += 1;
  }
  record_.insert(record_.begin() + steps(at + below(length + 1)), fresh.begin(),
                 fresh.end());
  header.*part.length += static_cast<uint32_t>(fresh.size());
  record_ = with_header(std::move(record_), header);
}

void Mutator::erase_from_part() {
  if (record_.size() < kHeaderWords) return;
  const Part& part = kParts[below(kParts.size())];
  Header header = header_of(record_);
  const size_t at = part.at(record_);
  const size_t length = header.*part.length;
  if (length == 0 || !lies_within(record_, at, length)) return;
  const size_t from = below(length);
  const size_t count = 1 + below(std::min<size_t>(length - from, 4));
  record_.erase(record_.begin() + steps(at + from),
                record_.begin() + steps(at + from + count));
  header.*part.length -= static_cast<uint32_t>(count);
  if (below(2) == 0) header.argument_count -= 1;
  record_ = with_header(std::move(record_), header);
}

}  // namespace torch_openreg::record::test
