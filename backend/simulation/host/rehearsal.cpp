#include "backend/simulation/host/rehearsal.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "backend/pytorch/clean_dispatch.h"
#include "backend/simulation/common/warnings.h"
#include "backend/simulation/host/metadata.h"
#include "backend/simulation/host/stand_ins.h"

namespace torch_openreg {

namespace {

using Metadata = std::shared_ptr<const record::CallMetadata>;
using Kind = StandIns::Kind;

// Numbers that say how large something is go with the sizes of small tensors:
// what was equal, or less, still is.
c10::IValue small_number(const OperatorInfo& info, size_t index,
                         const c10::IValue& value) {
  constexpr int64_t kMost = StandIns::kSmallSize;
  if (value.isIntList()) {
    c10::List<int64_t> list;
    for (const int64_t number : value.toIntVector()) {
      list.push_back(std::min(number, kMost));
    }
    return list;
  }
  const bool is_size = !info.takes_number[index] || !info.numbers_are_apart;
  if (!is_size ||
      std::ranges::find(info.enumerations, index) != info.enumerations.end()) {
    return value;
  }
  if (value.isInt()) return std::min(value.toInt(), kMost);
  if (value.isDouble() && info.takes_number[index]) {
    return std::min(value.toDouble(), static_cast<double>(kMost));
  }
  return value;
}

torch::jit::Stack convert(const OperatorInfo& info, StandIns& stand_ins,
                          std::span<const c10::IValue> arguments) {
  torch::jit::Stack stack;
  stack.reserve(arguments.size() + 4);
  for (size_t i = 0; i < arguments.size(); ++i) {
    stack.push_back(stand_ins.convert(stand_ins.are_small()
                                          ? small_number(info, i, arguments[i])
                                          : arguments[i]));
  }
  return stack;
}

// Calls a kernel with stand-ins and reads what it gives; of small ones not what
// it has resized.
template <typename Call>
Metadata try_out(const OperatorInfo& info,
                 std::span<const c10::IValue> arguments, Kind kind, Call call) {
  StandIns stand_ins(kind);
  torch::jit::Stack stack = convert(info, stand_ins, arguments);
  const torch::jit::Stack taken = info.writes ? stack : torch::jit::Stack();
  {
    const CleanDispatch clean;
    call(&stack);
  }
  std::span<const c10::IValue> after;
  if (!stand_ins.are_small()) after = taken;
  return read_metadata(info, arguments, after, stack);
}

// Throws PyTorch's error for tensors on several devices, with the name of ours
// in the place of Meta's; returns if it is another one.
void rethrow_mixed_devices(const c10::Error& error, c10::DeviceIndex device) {
  std::string text = error.what_without_backtrace();
  if (text.find("on the same device") == std::string::npos) return;
  const std::string ours =
      c10::Device(c10::DeviceType::PrivateUse1, device).str();
  constexpr std::string_view kMeta = "meta";
  for (size_t at = text.find(kMeta); at != std::string::npos;
       at = text.find(kMeta, at + ours.size())) {
    text.replace(at, kMeta.size(), ours);
  }
  TORCH_CHECK(false, text);
}

Metadata rehearse_on(const OperatorInfo& info,
                     std::span<const c10::IValue> arguments, Kind kind) {
  return try_out(info, arguments, kind, [&](torch::jit::Stack* stack) {
    if (info.generator >= 0) {
      (*stack)[static_cast<size_t>(info.generator)] =
          at::detail::createCPUGenerator();
    }
    info.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  });
}

Metadata try_on_ones(const OperatorInfo& info,
                     std::span<const c10::IValue> arguments) {
  try {
    const NoWarnings no_warnings;  // those of the zeros are kept
    return rehearse_on(info, arguments, Kind::kOnes);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Whether the failure that is being handled may be due to the stand-ins.
bool may_be_the_datas_fault(const OperatorInfo& info) {
  if (info.may_refuse_data) return true;
  try {
    throw;
  } catch (const c10::LinAlgError&) {
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

Metadata rehearse_on_any(const OperatorInfo& info,
                         std::span<const c10::IValue> arguments) {
  try {
    return rehearse_on(info, arguments, Kind::kZeros);
  } catch (const std::bad_alloc&) {
    return nullptr;
  } catch (const c10::Error&) {
    // Zeros are good indices, but bad divisors.
    if (auto metadata = try_on_ones(info, arguments)) return metadata;
    if (!may_be_the_datas_fault(info)) throw;
    return info.returns_new || info.has_out
               ? nullptr
               : std::make_shared<record::CallMetadata>();
  }
}

Metadata ask_meta_about(const OperatorInfo& info,
                        std::span<const c10::IValue> arguments, Kind kind,
                        c10::DeviceIndex device) {
  if (!info.is_meta_usable.load(std::memory_order_relaxed)) return nullptr;
  const CollectedWarnings warnings;
  try {
    const auto metadata =
        try_out(info, arguments, kind, [&](torch::jit::Stack* stack) {
          info.meta->callBoxed(
              info.op, c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
        });
    return warnings.empty() ? metadata : nullptr;
  } catch (const c10::NotImplementedError&) {
    info.is_meta_usable.store(false, std::memory_order_relaxed);
    return nullptr;
  } catch (const c10::Error& error) {
    rethrow_mixed_devices(error, device);
    return nullptr;  // what is wrong, or whether, the operator itself tells
  } catch (const std::exception&) {
    return nullptr;  // a Meta kernel in C++ may call others, in Python
  }
}

}  // namespace

Metadata rehearse(const OperatorInfo& info,
                  std::span<const c10::IValue> arguments, bool* has_warned) {
  const at::DisableRecordFunctionGuard no_profiling;
  std::vector<c10::Warning> warnings;
  const auto give = [&] {
    *has_warned = !warnings.empty();
    for (const c10::Warning& warning : warnings) c10::warn(warning);
  };
  Metadata metadata;
  try {
    CollectedWarnings collected;
    const auto take =
        c10::make_scope_exit([&] { warnings = collected.take(); });
    metadata = rehearse_on_any(info, arguments);
  } catch (...) {
    give();
    throw;
  }
  if (metadata != nullptr) give();
  return metadata;
}

Metadata rehearse_small(const OperatorInfo& info,
                        std::span<const c10::IValue> arguments) {
  const at::DisableRecordFunctionGuard no_profiling;
  const CollectedWarnings warnings;
  for (const Kind kind : {Kind::kSmall, Kind::kSmallOnes}) {
    try {
      const Metadata metadata = rehearse_on(info, arguments, kind);
      return warnings.empty() ? metadata : nullptr;
    } catch (const std::exception&) {
      continue;  // zeros are no probabilities
    }
  }
  return nullptr;
}

Metadata ask_meta(const OperatorInfo& info,
                  std::span<const c10::IValue> arguments,
                  c10::DeviceIndex device) {
  return ask_meta_about(info, arguments, Kind::kMeta, device);
}

Metadata ask_meta_small(const OperatorInfo& info,
                        std::span<const c10::IValue> arguments,
                        c10::DeviceIndex device) {
  return ask_meta_about(info, arguments, Kind::kSmallMeta, device);
}

}  // namespace torch_openreg
