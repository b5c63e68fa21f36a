// The part of the walk that concerns modules, kernels, host functions, and the
// failures of kernels.
#include <iterator>
#include <vector>

#include "support/fuzz_walk.h"
#include "support/work.h"

namespace openreg::test {

namespace {

constexpr size_t kMaxModules = 4;

template <typename Handle>
Handle as(uint64_t value) {
  return reinterpret_cast<Handle>(value);
}

}  // namespace

void FuzzWalk::do_module() {
  LiveModule made{nullptr, current_, nullptr};
  orFunction_t found = nullptr;
  const auto gone = [this] {
    return gone_modules_[below(gone_modules_.size())];
  };
  switch (below(6)) {
    case 0:
      if (modules_.size() >= kMaxModules) return;
      if (!WALK(orSuccess, orModuleLoad(&made.handle, OPENREG_TEST_MODULE))) {
        return;
      }
      WALK(orSuccess, orModuleGetFunction(&made.noop, made.handle, "noop"));
      modules_.push_back(made);
      return;
    case 1:
      if (modules_.empty()) return;
      made = modules_.back();
      modules_.pop_back();
      WALK(orSuccess, orModuleUnload(made.handle));
      gone_modules_.push_back({reinterpret_cast<uint64_t>(made.handle), false});
      gone_functions_.push_back({reinterpret_cast<uint64_t>(made.noop), false});
      return;
    case 2:
      WALK(orErrorInvalidValue, orModuleLoad(&made.handle, "/nonexistent.so"));
      return;
    case 3:
      if (modules_.empty()) return;
      WALK(orErrorInvalidValue,
           orModuleGetFunction(&found, modules_.back().handle, "nosuch"));
      return;
    case 4:
      WALK(orSuccess, orModuleGetBuiltin(&made.handle));
      WALK(orErrorInvalidValue, orModuleUnload(made.handle));
      return;
    default:
      if (gone_modules_.empty()) return;
      const Gone bad = gone();
      WALK(orErrorInvalidHandle, orModuleUnload(as<orModule_t>(bad.value)));
      expect_says_reset(bad);
  }
}

void FuzzWalk::do_launch() {
  const StreamRef stream = any_stream();
  set_device(stream.device);
  orFunction_t function = builtin("empty");
  for (const LiveModule& module : modules_) {
    if (module.device == stream.device && chance(50)) function = module.noop;
  }
  const std::vector<char> args(below(300));
  switch (below(3)) {
    case 0:
      WALK(orSuccess,
           orLaunchKernel(function, args.data(), args.size(), stream.handle));
      break;
    case 1:
      WALK(orSuccess,
           launch_cheap(function, args.data(), args.size(), stream.handle));
      break;
    default:
      WALK(orSuccess, orLaunchKernelSync(function, args.data(), args.size(),
                                         stream.handle, nullptr, 0, nullptr));
  }
}

void FuzzWalk::do_bad_launch() {
  const StreamRef stream = any_stream();
  set_device(stream.device);
  const orFunction_t empty = builtin("empty");
  orLaunchConfig_t config{sizeof config, stream.handle, orLaunchDefault};
  char byte = 0;
  switch (below(7)) {
    case 0:
      WALK(orErrorInvalidValue,
           orLaunchKernel(empty, nullptr, 8, stream.handle));
      break;
    case 1:
      WALK(orErrorInvalidValue,
           orLaunchKernel(empty, &byte, size_t{1} << 40, stream.handle));
      break;
    case 2:
      WALK(orErrorInvalidValue, orLaunchKernelEx(nullptr, empty, nullptr, 0));
      break;
    case 3:
      config.flags = 0x40;
      WALK(orErrorInvalidValue, orLaunchKernelEx(&config, empty, nullptr, 0));
      break;
    case 4:
      config.structSize = 3;
      WALK(orErrorInvalidValue, orLaunchKernelEx(&config, empty, nullptr, 0));
      break;
    case 5: {
      Gone bad{0, false};
      if (!gone_functions_.empty()) {
        bad = gone_functions_[below(gone_functions_.size())];
      }
      WALK(orErrorInvalidHandle, orLaunchKernel(as<orFunction_t>(bad.value),
                                                nullptr, 0, stream.handle));
      expect_says_reset(bad);
      break;
    }
    default:
      if (device_count_ < 2 || stream.handle == nullptr) return;
      set_device((stream.device + 1) % device_count_);
      WALK(orErrorInvalidDevice,
           orLaunchKernel(builtin("empty"), nullptr, 0, stream.handle));
  }
}

// Fills a part of a block by a kernel that may use it.
void FuzzWalk::do_block_kernel() {
  Block* const block = any_block();
  if (block == nullptr) return;
  const StreamRef stream = any_stream();
  const bool own = block->device < 0 || block->device == stream.device;
  if (!own && !peers_[static_cast<size_t>(stream.device)]
                     [static_cast<size_t>(block->device)]) {
    return;
  }
  const size_t offset = below(block->size + 1);
  const size_t count = below(block->size - offset + 1);
  const auto value = static_cast<unsigned char>(below(256));
  order({block}, stream);
  if (!own) block->peer_kernel = true;
  set_device(stream.device);
  const orTestingFillArgs args{block->ptr + offset, count, value};
  WALK(orSuccess, chance(30)
                      ? launch_cheap(builtin("fill"), args, stream.handle)
                      : launch(builtin("fill"), args, stream.handle));
  const std::vector<unsigned char> bytes(count, value);
  write(*block, offset, bytes.data(), count, true);
}

void FuzzWalk::do_host_function() {
  const StreamRef stream = any_stream();
  select(stream);
  if (chance(20)) {
    WALK(orErrorInvalidValue, orLaunchHostFunc(stream.handle, nullptr, this));
    return;
  }
  WALK(orSuccess,
       orLaunchHostFunc(
           stream.handle,
           [](void* self) { ++static_cast<FuzzWalk*>(self)->host_calls_; },
           this));
  ++host_calls_expected_;
}

// A kernel that fails, and the call that delivers it.
void FuzzWalk::do_failure() {
  static constexpr orError_t kCodes[] = {
      orErrorInvalidValue, orErrorOutOfMemory, orErrorNotSupported,
      orErrorLaunchFailure, orErrorInternal};
  const orError_t code = kCodes[below(std::size(kCodes))];
  const StreamRef stream = any_stream();
  set_device(stream.device);
  const orTestingFailArgs args{code, "fuzz"};
  if (chance(30)) {
    WALK(code, orLaunchKernelSync(builtin("fail"), &args, sizeof args,
                                  stream.handle, nullptr, 0, nullptr));
  } else if (chance(30)) {
    const orError_t given = launch_cheap(builtin("fail"), args, stream.handle);
    check({orSuccess, code}, given, "launch_cheap(fail)");
    WALK(given == code ? orSuccess : code, orStreamSynchronize(stream.handle));
  } else {
    WALK(orSuccess, launch(builtin("fail"), args, stream.handle));
    if (chance(30)) settle();
    WALK(code, chance(50) ? orStreamSynchronize(stream.handle)
                          : orDeviceSynchronize());
  }
  WALK(orSuccess, orDeviceSynchronize());
}

void FuzzWalk::do_sticky_failure() {
  if (!chance(15)) return;  // its reset leaves little behind
  const bool all_work_done = chance(50);
  if (all_work_done) sync_all();
  const StreamRef stream = any_stream();
  sync_others(stream.device);
  orError_t code = orErrorIllegalAddress;
  if (chance(50)) {
    const orTestingFillArgs args{nullptr, 64, 0};
    WALK(orSuccess, launch(builtin("fill"), args, stream.handle));
  } else {
    code = chance(50) ? orErrorIllegalAddress : orErrorDeviceLost;
    const orTestingFailArgs args{code, "fuzz"};
    WALK(orSuccess, launch(builtin("fail"), args, stream.handle));
  }
  WALK(code, orStreamSynchronize(stream.handle));
  WALK(code, orDeviceSynchronize());
  WALK(code, launch_empty(stream.handle));
  settle();
  WALK(orSuccess, orDeviceReset());
  forget_device(stream.device, all_work_done);
}

}  // namespace openreg::test
