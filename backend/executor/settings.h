// The settings that an operator runs under, as one word.
#pragma once

#include <cstdint>

namespace torch_openreg {

// Part of every launch record: what may decide the metadata of the outputs, and
// what belongs to a thread. All other settings of the process are read by the
// kernel itself: they change only when nothing is queued (see
// torch_openreg/_patches.py).
struct Settings {
  uint8_t default_dtype = 0;
  uint16_t threads = 1;
  bool deterministic = false;
  bool deterministic_warn_only = false;
  bool fill_uninitialized = false;
  bool flush_denormals = false;
  bool mkldnn = true;
  bool gradients = true;  // some kernels keep more for a backward pass

  uint64_t pack() const {
    return uint64_t{default_dtype} | uint64_t{threads} << 16 |
           uint64_t{deterministic} << 32 |
           uint64_t{deterministic_warn_only} << 33 |
           uint64_t{fill_uninitialized} << 34 |
           uint64_t{flush_denormals} << 35 | uint64_t{mkldnn} << 36 |
           uint64_t{gradients} << 37;
  }
  static Settings unpack(uint64_t word) {
    return {.default_dtype = static_cast<uint8_t>(word),
            .threads = static_cast<uint16_t>(word >> 16),
            .deterministic = (word >> 32 & 1) != 0,
            .deterministic_warn_only = (word >> 33 & 1) != 0,
            .fill_uninitialized = (word >> 34 & 1) != 0,
            .flush_denormals = (word >> 35 & 1) != 0,
            .mkldnn = (word >> 36 & 1) != 0,
            .gradients = (word >> 37 & 1) != 0};
  }
};

}  // namespace torch_openreg
