// The settings that an operator runs under, as one word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

namespace torch_openreg {

// Part of every launch record: what may change what an operator gives, in the
// process that has called it and on the thread that has. The device may be
// another process, so all of it travels. Values are PyTorch's numbers; `pack`
// expects them to fit.
struct Settings {
  // How exact products of floats are, for each family of operators of oneDNN:
  // at::Float32Precision.
  struct Precision {
    uint8_t convolution = 0;
    uint8_t recurrent = 0;
    uint8_t matmul = 0;
  };

  // Of a thread.
  uint16_t threads = 1;
  bool flush_denormals = false;
  bool gradients = true;  // some kernels keep more for a backward pass

  // Of the whole process.
  uint8_t default_dtype = 0;
  bool deterministic = false;
  bool deterministic_warn_only = false;
  bool fill_uninitialized = false;
  bool mkldnn = true;
  bool mkldnn_deterministic = false;
  bool nnpack = true;
  bool half_sums = false;  // of the CPU's products of halfs
  bool half_sums_attention =
      false;  // of the attention that is made of products
  bool warn_always = false;
  uint8_t sparse_checks = 0;  // 0: nobody has said; 1: off; 2: on
  uint8_t quantized_engine = 0;
  Precision precision;

  // The bits of the word that belong to the process.
  static constexpr uint64_t kOfProcess = ~uint64_t{0x3ffff};

  constexpr uint64_t pack() const {
    return uint64_t{threads} | uint64_t{flush_denormals} << 16 |
           uint64_t{gradients} << 17 | uint64_t{default_dtype} << 18 |
           uint64_t{deterministic} << 26 |
           uint64_t{deterministic_warn_only} << 27 |
           uint64_t{fill_uninitialized} << 28 | uint64_t{mkldnn} << 29 |
           uint64_t{mkldnn_deterministic} << 30 | uint64_t{nnpack} << 31 |
           uint64_t{half_sums} << 32 | uint64_t{half_sums_attention} << 33 |
           uint64_t{warn_always} << 34 | uint64_t{sparse_checks} << 35 |
           uint64_t{quantized_engine} << 37 |
           uint64_t{precision.convolution} << 41 |
           uint64_t{precision.recurrent} << 44 |
           uint64_t{precision.matmul} << 47;
  }

  static constexpr Settings unpack(uint64_t word) {
    const auto flag = [word](unsigned bit) { return (word >> bit & 1) != 0; };
    const auto number = [word](unsigned bit, unsigned bits) {
      return static_cast<uint8_t>(word >> bit & ((1U << bits) - 1));
    };
    return {.threads = static_cast<uint16_t>(word),
            .flush_denormals = flag(16),
            .gradients = flag(17),
            .default_dtype = number(18, 8),
            .deterministic = flag(26),
            .deterministic_warn_only = flag(27),
            .fill_uninitialized = flag(28),
            .mkldnn = flag(29),
            .mkldnn_deterministic = flag(30),
            .nnpack = flag(31),
            .half_sums = flag(32),
            .half_sums_attention = flag(33),
            .warn_always = flag(34),
            .sparse_checks = number(35, 2),
            .quantized_engine = number(37, 4),
            .precision = {.convolution = number(41, 3),
                          .recurrent = number(44, 3),
                          .matmul = number(47, 3)}};
  }
};

// How many threads a device uses for a kernel at most: the library below ends
// the process when it can't start them.
inline int max_threads() {
  static const int count =
      std::max(64, 4 * static_cast<int>(std::thread::hardware_concurrency()));
  return count;
}

}  // namespace torch_openreg
