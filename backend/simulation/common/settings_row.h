// What a row of the table of settings consists of; settings_table.h has the
// rows.
#pragma once

#include <ATen/Context.h>

#include <cstdint>
#include <string_view>

namespace torch_openreg::setting {

enum class Owner : uint8_t { kThread, kProcess };

// When the host reads a setting: what decides metadata, or belongs to a thread,
// at each call; the others when a setter says that they have changed, because
// to read them takes as long as all else.
enum class Reading : uint8_t { kAtEachCall, kWhenSet };

// What the table says about a setting. A row is a structure with such a kRow.
// If the setting is the process's, it also has, as ContextFlag has them,
//   read     its value of the moment, as a number
//   is_good  whether a process can have the value
//   apply    gives it to this process
struct Row {
  std::string_view name;  // in docs/launch-record.md
  unsigned bits = 1;
  Owner owner = Owner::kProcess;
  Reading reading = Reading::kAtEachCall;
  // The functions of torch._C that change it and have to tell the device: those
  // that torch_openreg/_patches.py wraps.
  std::string_view setters = {};
};

// A flag of PyTorch's context.
template <auto Get, auto Set>
struct ContextFlag {
  static uint64_t read(const at::Context& context) {
    return (context.*Get)() ? 1 : 0;
  }
  static bool is_good(uint64_t /*value*/) { return true; }
  static void apply(at::Context& context, uint64_t value) {
    (context.*Set)(value != 0);
  }
};

// How exact products of floats are in a family of operators of oneDNN.
template <at::Float32Op Family>
struct Precision {
  static uint64_t read(const at::Context& context) {
    return static_cast<uint64_t>(
        context.float32Precision(at::Float32Backend::MKLDNN, Family));
  }
  static bool is_good(uint64_t value) {
    return value <= static_cast<uint64_t>(at::Float32Precision::DEFAULT);
  }
  static void apply(at::Context& context, uint64_t value) {
    context.setFloat32Precision(at::Float32Backend::MKLDNN, Family,
                                static_cast<at::Float32Precision>(value));
  }
};

}  // namespace torch_openreg::setting
