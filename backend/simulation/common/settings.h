// The settings that an operator runs under, as one word: part of every launch
// record, because the device may be another process. settings_table.h has the
// settings.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "backend/simulation/common/settings_table.h"

namespace torch_openreg::setting {

namespace detail {

// What the table says of a row, and of all of them.
template <typename Rows>
struct Layout;

template <typename... Rows>
struct Layout<List<Rows...>> {
  static constexpr unsigned kBits = (Rows::kRow.bits + ...);
  static_assert(kBits < 64, "kNoWord has all bits");

  template <typename Setting>
  static constexpr unsigned first_bit() {
    unsigned bit = 0;
    bool is_found = false;
    ((is_found = is_found || std::is_same_v<Rows, Setting>,
      bit += is_found ? 0 : Rows::kRow.bits),
     ...);
    return bit;
  }
};

template <typename Setting>
inline constexpr unsigned kFirstBit =
    Layout<Table>::template first_bit<Setting>();
template <typename Setting>
inline constexpr uint64_t kMost = (uint64_t{1} << Setting::kRow.bits) - 1;

}  // namespace detail

// A word that no settings have.
inline constexpr uint64_t kNoWord = ~uint64_t{0};

// The value's bits of the word.
template <typename Setting>
constexpr uint64_t put(uint64_t value) {
  return (value & detail::kMost<Setting>) << detail::kFirstBit<Setting>;
}

template <typename Setting>
constexpr uint64_t get(uint64_t word) {
  return word >> detail::kFirstBit<Setting> & detail::kMost<Setting>;
}

// The word with another value.
template <typename Setting>
constexpr uint64_t with(uint64_t word, uint64_t value) {
  return (word & ~put<Setting>(detail::kMost<Setting>)) | put<Setting>(value);
}

namespace detail {

template <typename Setting>
inline constexpr bool kIsOfProcess = Setting::kRow.owner == Owner::kProcess;

template <typename... Rows>
constexpr uint64_t thread_bits(List<Rows...> /*table*/) {
  return ((kIsOfProcess<Rows> ? 0 : put<Rows>(kMost<Rows>)) | ...);
}

// Calls `visit` with each setting of the process, in a list of its own.
template <typename Visit, typename... Rows>
void for_each_of_process(List<Rows...> /*table*/, Visit visit) {
  const auto visit_one = [&visit]<typename Setting>(List<Setting> setting) {
    if constexpr (kIsOfProcess<Setting>) visit(setting);
  };
  (visit_one(List<Rows>{}), ...);
}

}  // namespace detail

// The bits of the word that belong to the process, and those of no setting.
inline constexpr uint64_t kOfProcess = ~detail::thread_bits(Table{});

// The process's settings that are read then, from PyTorch.
template <Reading When>
uint64_t read(const at::Context& context) {
  uint64_t word = 0;
  detail::for_each_of_process(Table{}, [&]<typename Setting>(List<Setting>) {
    if constexpr (Setting::kRow.reading == When) {
      word |= put<Setting>(Setting::read(context));
    }
  });
  return word;
}

// Whether a process can have these settings.
inline bool are_good(uint64_t word) {
  bool is_good = word >> detail::Layout<Table>::kBits == 0;
  detail::for_each_of_process(Table{}, [&]<typename Setting>(List<Setting>) {
    is_good = is_good && Setting::is_good(get<Setting>(word));
  });
  return is_good;
}

// Gives them to this process.
inline void apply(uint64_t word) {
  at::Context& context = at::globalContext();
  detail::for_each_of_process(Table{}, [&]<typename Setting>(List<Setting>) {
    Setting::apply(context, get<Setting>(word));
  });
}

// How many threads a device uses for a kernel at most: the library below ends
// the process when it can't start them.
inline int max_threads() {
  static const int count =
      std::max(64, 4 * static_cast<int>(std::thread::hardware_concurrency()));
  return count;
}

}  // namespace torch_openreg::setting
