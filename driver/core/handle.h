// The meaning of a handle's bits.
#pragma once

#include <cstdint>

#include "openreg/device.h"

namespace openreg {

enum class HandleKind : uint8_t { kNone, kStream, kEvent, kModule, kFunction };

// A handle is a number that looks like a pointer and is never followed. It
// carries what is needed to refuse it with the right words: what it names, the
// device and the life of that device ("epoch") in which it was made, and the
// place in a table, with a generation that tells a new tenant from the old one.
struct Handle {
  static constexpr int kIndexBits = 20;
  static constexpr int kGenerationBits = 20;
  static constexpr int kEpochBits = 14;
  static constexpr int kDeviceBits = 6;
  static constexpr int kKindBits = 4;
  static_assert(kIndexBits + kGenerationBits + kEpochBits + kDeviceBits +
                    kKindBits ==
                64);
  static_assert(sizeof(void*) == sizeof(uint64_t));
  static_assert(OPENREG_MAX_DEVICES <= 1 << kDeviceBits);

  uint64_t index : kIndexBits;
  uint64_t generation : kGenerationBits;
  uint64_t epoch : kEpochBits;
  uint64_t device : kDeviceBits;
  uint64_t kind : kKindBits;

  static Handle from(const void* pointer) {
    return __builtin_bit_cast(Handle, pointer);
  }
  void* to_pointer() const { return __builtin_bit_cast(void*, *this); }

  HandleKind handle_kind() const { return static_cast<HandleKind>(kind); }

  // The part of a device's epoch that a handle can hold.
  static uint64_t epoch_bits(uint64_t epoch) {
    return epoch & ((uint64_t{1} << kEpochBits) - 1);
  }
};
static_assert(sizeof(Handle) == sizeof(uint64_t));

}  // namespace openreg
