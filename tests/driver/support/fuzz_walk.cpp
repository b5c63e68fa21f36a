#include "support/fuzz_walk.h"

#include <algorithm>

#include "support/work.h"

namespace openreg::test {

namespace {

constexpr size_t kTraceLength = 24;
constexpr size_t kRegisteredSize = 8192;

size_t free_memory() {
  size_t bytes = 0;
  OR_EXPECT_OK(orMemGetInfo(&bytes, nullptr));
  return bytes;
}

}  // namespace

FuzzWalk::FuzzWalk(uint64_t seed, bool alone)
    : seed_(seed),
      alone_(alone),
      random_(seed),
      registered_memory_(kRegisteredSize) {
  OR_EXPECT_OK(orGetDeviceCount(&device_count_));
  const auto count = static_cast<size_t>(device_count_);
  peers_.assign(count, std::vector<bool>(count, false));
  chain_.assign(count, nullptr);
  for (int device = 0; device < device_count_; ++device) {
    const OnDevice on(device);
    free_bytes_.push_back(free_memory());
  }
  OR_EXPECT_OK(orSetDevice(current_));
  before_ = counters();
}

void FuzzWalk::run(size_t calls) {
  while (calls_ < calls && !failed_) step();
}

void FuzzWalk::finish() {
  if (failed_) return;
  sync_all();
  check_counters();
  verify_and_free_all();
  destroy_handles();
  for (int device = 0; device < device_count_; ++device) {
    for (int peer = 0; peer < device_count_; ++peer) {
      if (!peers_[static_cast<size_t>(device)][static_cast<size_t>(peer)]) {
        continue;
      }
      set_device(device);
      WALK(orSuccess, orDeviceDisablePeerAccess(peer));
    }
  }
  if (alone_) do_memory_info();
  set_device(0);
}

bool FuzzWalk::check(std::initializer_list<orError_t> expected,
                     orError_t actual, const char* text) {
  ++calls_;
  trace_.push_back(std::string(text) + " = " + orGetErrorName(actual));
  if (trace_.size() > kTraceLength) trace_.pop_front();
  const bool as_expected =
      std::find(expected.begin(), expected.end(), actual) != expected.end();
  const bool is_failure = actual != orSuccess && actual != orErrorNotReady;
  const bool is_last = !is_failure || orGetLastError() == actual;
  if ((as_expected && is_last) || failed_) return as_expected;
  failed_ = true;
  std::string wanted;
  for (const orError_t code : expected) {
    wanted +=
        (wanted.empty() ? "" : " or ") + std::string(orGetErrorName(code));
  }
  std::string trace;
  for (const std::string& line : trace_) trace += "\n  " + line;
  ADD_FAILURE() << "call " << calls_ << " of OPENREG_FUZZ_SEED=" << seed_
                << ": " << text << " gave " << describe(actual) << "; expected "
                << wanted << (is_last ? "" : ", also from orGetLastError")
                << ". The latest calls:" << trace;
  return as_expected;
}

void FuzzWalk::expect_says_reset(const Gone& gone) {
  if (!gone.by_reset || failed_) return;
  const std::string message = orGetLastErrorMessage();
  if (message.find("reset") != std::string::npos) return;
  failed_ = true;
  ADD_FAILURE() << "call " << calls_ << " of OPENREG_FUZZ_SEED=" << seed_
                << " does not say that the device was reset: " << message;
}

size_t FuzzWalk::below(size_t bound) { return random_() % bound; }

bool FuzzWalk::chance(unsigned percent) { return below(100) < percent; }

void FuzzWalk::step() {
  struct Choice {
    unsigned weight;
    void (FuzzWalk::*act)();
    bool only_alone;
  };
  static constexpr Choice kChoices[] = {
      {8, &FuzzWalk::do_device, false},
      {3, &FuzzWalk::do_peer, true},  // permissions belong to all threads
      {1, &FuzzWalk::do_reset, true},
      {16, &FuzzWalk::do_stream, false},
      {8, &FuzzWalk::do_bad_stream, false},
      {16, &FuzzWalk::do_event, false},
      {4, &FuzzWalk::do_elapsed_time, false},
      {6, &FuzzWalk::do_bad_event, false},
      {2, &FuzzWalk::do_module, false},
      {16, &FuzzWalk::do_launch, false},
      {6, &FuzzWalk::do_bad_launch, false},
      {16, &FuzzWalk::do_block_kernel, false},
      {6, &FuzzWalk::do_host_function, false},
      {2, &FuzzWalk::do_failure, true},
      {1, &FuzzWalk::do_sticky_failure, true},
      {10, &FuzzWalk::do_malloc, false},
      {4, &FuzzWalk::do_bad_malloc, false},
      {7, &FuzzWalk::do_free, false},
      {5, &FuzzWalk::do_bad_free, false},
      {3, &FuzzWalk::do_register, false},
      {24, &FuzzWalk::do_copy, false},
      {10, &FuzzWalk::do_bad_copy, false},
      {5, &FuzzWalk::do_peer_copy, false},
      {14, &FuzzWalk::do_memset, false},
      {5, &FuzzWalk::do_bad_memset, false},
      {8, &FuzzWalk::do_attributes, false},
      {3, &FuzzWalk::do_memory_info, true},
      {1, &FuzzWalk::sync_all, false},
      {1, &FuzzWalk::check_counters, true},
  };
  unsigned total = 0;
  for (const Choice& choice : kChoices) total += choice.weight;
  size_t number = below(total);
  for (const Choice& choice : kChoices) {
    if (number < choice.weight) {
      if (alone_ || !choice.only_alone) (this->*choice.act)();
      return;
    }
    number -= choice.weight;
  }
}

void FuzzWalk::set_device(int device) {
  if (device == current_) return;
  WALK(orSuccess, orSetDevice(device));
  current_ = device;
}

// A null handle means the current device's default stream.
void FuzzWalk::select(const StreamRef& stream) {
  if (stream.handle == nullptr) set_device(stream.device);
}

FuzzWalk::StreamRef FuzzWalk::any_stream() {
  if (streams_.empty() || chance(20)) {
    return {nullptr, static_cast<int>(below(device_count_))};
  }
  return streams_[below(streams_.size())];
}

bool FuzzWalk::is_live(const StreamRef& stream) const {
  return stream.handle == nullptr ||
         std::find(streams_.begin(), streams_.end(), stream) != streams_.end();
}

void FuzzWalk::sync_all() {
  for (int device = 0; device < device_count_; ++device) {
    set_device(device);
    WALK(orSuccess, orDeviceSynchronize());
  }
  for (Block& block : blocks_) block.pending = block.peer_kernel = false;
  if (host_calls_ == host_calls_expected_ || failed_) return;
  failed_ = true;
  ADD_FAILURE() << "OPENREG_FUZZ_SEED=" << seed_ << ": " << host_calls_
                << " host functions ran, not " << host_calls_expected_;
}

// Leaves nothing on other devices that could use memory of `device`, and makes
// that device current: its reset would be a failure for them.
void FuzzWalk::sync_others(int device) {
  for (int other = 0; other < device_count_; ++other) {
    if (other == device) continue;
    set_device(other);
    WALK(orSuccess, orDeviceSynchronize());
  }
  set_device(device);
}

// Makes `stream`, their next user, wait for the latest work on `blocks`.
void FuzzWalk::order(std::initializer_list<Block*> blocks,
                     const StreamRef& stream) {
  for (const Block* const block : blocks) {
    if (!block->pending || block->last == stream) continue;
    if (!is_live(block->last)) {
      sync_all();
      continue;
    }
    orEvent_t& chain = chain_[static_cast<size_t>(block->last.device)];
    if (chain == nullptr) {
      set_device(block->last.device);
      WALK(orSuccess, orEventCreateWithFlags(&chain, orEventDisableTiming));
    }
    select(block->last);
    WALK(orSuccess, orEventRecord(chain, block->last.handle));
    select(stream);
    WALK(orSuccess, orStreamWaitEvent(stream.handle, chain, 0));
  }
  // Only now: sync_all takes the marks away.
  for (Block* const block : blocks) {
    block->pending = true;
    block->last = stream;
  }
}

// Moves what a reset of `device` has destroyed to what is refused. Unless all
// work was done before, nothing is known about the memory that remains.
void FuzzWalk::forget_device(int device, bool all_work_done) {
  const auto index = static_cast<size_t>(device);
  const auto move_out = [device](auto& live, auto& gone) {
    std::erase_if(live, [&](const auto& object) {
      if (object.device != device) return false;
      gone.push_back({reinterpret_cast<uint64_t>(object.handle), true});
      return true;
    });
  };
  for (const LiveModule& module : modules_) {
    if (module.device != device) continue;
    gone_functions_.push_back({reinterpret_cast<uint64_t>(module.noop), true});
  }
  move_out(streams_, gone_streams_);
  move_out(events_, gone_events_);
  move_out(modules_, gone_modules_);
  std::erase_if(blocks_, [&](const Block& block) {
    if (block.device != device) return false;
    gone_pointers_.push_back({reinterpret_cast<uint64_t>(block.ptr), true});
    return true;
  });
  chain_[index] = nullptr;
  for (size_t other = 0; other < peers_.size(); ++other) {
    peers_[index][other] = peers_[other][index] = false;
  }
  size_t total = 0;
  set_device(device);
  WALK(orSuccess, orMemGetInfo(&free_bytes_[index], &total));
  if (free_bytes_[index] != total && !failed_) {
    failed_ = true;
    ADD_FAILURE() << "OPENREG_FUZZ_SEED=" << seed_ << ": a reset device has "
                  << free_bytes_[index] << " of " << total << " bytes free";
  }
  if (!all_work_done) {
    for (Block& block : blocks_) block.known = false;
    for (int other = 0; other < device_count_; ++other) {
      const OnDevice on(other);
      WALK(orSuccess, orDeviceSynchronize());
    }
    host_calls_expected_ = host_calls_;  // some were dropped
  }
  sync_all();
}

void FuzzWalk::check_counters() {
  if (!alone_ || failed_) return;
  const orTestingCounters now = counters();
  const auto chains = static_cast<size_t>(std::count_if(
      chain_.begin(), chain_.end(), [](orEvent_t e) { return e != nullptr; }));
  const auto pinned = static_cast<size_t>(
      std::count_if(blocks_.begin(), blocks_.end(),
                    [](const Block& block) { return block.device < 0; }));
  EXPECT_EQ(now.liveStreams, before_.liveStreams + streams_.size());
  EXPECT_EQ(now.liveEvents, before_.liveEvents + events_.size() + chains);
  EXPECT_EQ(now.liveModules, before_.liveModules + modules_.size());
  EXPECT_EQ(now.liveAllocations,
            before_.liveAllocations + blocks_.size() - pinned);
  if (!registered_) {  // whether registered memory counts is the driver's taste
    EXPECT_EQ(now.liveHostAllocations, before_.liveHostAllocations + pinned);
  }
  if (::testing::Test::HasFailure()) failed_ = true;
}

void FuzzWalk::do_device() {
  int number = -1;
  orDeviceProp prop{};
  const int bad = chance(50) ? -1 : device_count_ + static_cast<int>(below(9));
  switch (below(9)) {
    case 0:
      WALK(orSuccess, orGetDeviceCount(&number));
      EXPECT_EQ(number, device_count_);
      break;
    case 1:
      WALK(orErrorInvalidValue, orGetDeviceCount(nullptr));
      break;
    case 2:
      WALK(orSuccess, orGetDevice(&number));
      EXPECT_EQ(number, current_);
      break;
    case 3:
      WALK(orErrorInvalidDevice, orSetDevice(bad));
      break;
    case 4:
      WALK(orSuccess, orGetDeviceProperties(
                          &prop, static_cast<int>(below(device_count_))));
      break;
    case 5:
      WALK(orErrorInvalidDevice, orGetDeviceProperties(&prop, bad));
      break;
    case 6:
      WALK(orErrorInvalidDevice, orDeviceCanAccessPeer(&number, 0, bad));
      break;
    case 7:
      WALK(orSuccess, orDeviceGetStreamPriorityRange(&number, nullptr));
      break;
    default:
      set_device(static_cast<int>(below(device_count_)));
  }
}

void FuzzWalk::do_peer() {
  if (device_count_ < 2) return;
  const int peer = static_cast<int>(below(device_count_));
  int can = 0;
  WALK(orSuccess, orDeviceCanAccessPeer(&can, current_, peer));
  const bool enabled =
      peers_[static_cast<size_t>(current_)][static_cast<size_t>(peer)];
  if (peer == current_) {
    EXPECT_EQ(can, 0);
    WALK(orErrorInvalidDevice, orDeviceEnablePeerAccess(peer, 0));
  } else if (chance(20)) {
    WALK(orErrorInvalidValue, orDeviceEnablePeerAccess(peer, 1));
  } else if (can == 0) {
    WALK(orErrorNotSupported, orDeviceEnablePeerAccess(peer, 0));
  } else if (chance(50)) {
    WALK(enabled ? orErrorInvalidValue : orSuccess,
         orDeviceEnablePeerAccess(peer, 0));
    peers_[static_cast<size_t>(current_)][static_cast<size_t>(peer)] = true;
  } else {
    const int device = current_;
    sync_all();  // no kernel that needs the permission is queued
    set_device(device);
    WALK(enabled ? orSuccess : orErrorInvalidValue,
         orDeviceDisablePeerAccess(peer));
    peers_[static_cast<size_t>(device)][static_cast<size_t>(peer)] = false;
  }
}

void FuzzWalk::do_reset() {
  if (!chance(15)) return;  // it leaves little behind
  const bool all_work_done = chance(50);
  if (all_work_done) sync_all();
  const int device = current_;
  sync_others(device);
  WALK(orSuccess, orDeviceReset());
  forget_device(device, all_work_done);
}

}  // namespace openreg::test
